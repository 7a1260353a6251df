"""OpenAI's POST /v1/completions as clients send it, turned into `CompletionRequest`s.

One rule for every field. Unknown: ignored, its name in the debug log. Known but not served: accepted at its
neutral value or null, else UnsupportedField. Null always means "left out".
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from halfline.api.options import ApiOptions
from halfline.errors import BadRequest, UnsupportedField
from halfline.request import CompletionRequest, Document, Identity, Priority, SamplingParams
from halfline.telemetry.log import fields

T = TypeVar("T")

_log = logging.getLogger(__name__)

_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
_TokenIds = list[_Count]


class _StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class CompletionBody(BaseModel):
    """The JSON body. Types are strict: a number in quotes is a mistake, not a number."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    model: str | None = Field(None, description="Any name; the model served is reported in the reply.")
    prompt: str | list[str] | _TokenIds | list[_TokenIds]
    suffix: str | None = Field(None, description="Text behind the cursor; asks for editor mode.")
    metadata: dict[str, Any] | None = Field(
        None, description="`path`, the document's path, asks for editor mode."
    )
    max_tokens: _Count | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: _TokenIds | None = None
    ignore_eos: bool | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = Field(
        None, description="0 or -1 keeps every token."
    )
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[_Count, float] | None = None
    user: str | None = Field(
        None,
        description="Whose request it is, for fair shares; with `metadata.path` it supersedes the user's older"
        " request for that path.",
    )
    priority: Priority | None = Field(
        None, description="`interactive` unless said; `batch` where a prompt is only scored."
    )
    deadline_ms: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Milliseconds from now by which the answer is wanted; orders the queue."
    )


# Fields of OpenAI's and vLLM's servers that change the answer and that we do not serve.
_NEUTRAL_VALUES: Mapping[str, object] = {
    "min_tokens": 0,
    "prompt_logprobs": None,
    "truncate_prompt_tokens": None,
    "return_token_ids": False,
    "return_tokens_as_token_ids": False,
    "use_beam_search": False,
    "length_penalty": 1.0,
    "bad_words": [],
    "allowed_token_ids": None,
    "prompt_embeds": None,
    "response_format": None,
    "structured_outputs": None,
    "add_special_tokens": True,
    "skip_special_tokens": True,
    "include_stop_str_in_output": False,
}

_SHAPES = {
    "prompt": "it must be a text, a list of texts, a list of token ids, or a list of such lists",
    "stop": "it must be a text or a list of texts",
    "priority": f"it must be one of {', '.join(get_args(Priority))}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionCall:
    """A body understood: one request per prompt, and how the reply is wanted.

    Each request generates at least `num_choices` choices; when more (`best_of`), the best are returned.
    """

    id: str
    requests: tuple[CompletionRequest, ...]
    num_choices: int
    shows_logprobs: bool
    streams: bool
    includes_usage: bool


def read_completion_call(body: bytes, call_id: str, tenant: str, options: ApiOptions) -> CompletionCall:
    """Raises BadRequest, naming the field where it can, for anything that cannot be served."""
    try:
        parsed = CompletionBody.model_validate_json(body)
    except ValidationError as error:
        raise _bad_request(error) from error
    _refuse_unsupported(parsed)
    num_choices = parsed.n or 1
    num_generated = parsed.best_of or num_choices
    if num_generated < num_choices:
        raise BadRequest(f"`best_of` is {num_generated}, less than `n`, which is {num_choices}", "best_of")
    streams = bool(parsed.stream)
    if streams and num_generated > num_choices:
        raise BadRequest(
            "`best_of` greater than `n` cannot be streamed: the best is known at the end", "best_of"
        )
    prompts = _prompts(parsed)
    if len(prompts) * num_generated > options.max_choices:
        raise BadRequest(
            f"{len(prompts)} prompts with {num_generated} choices each were asked for,"
            f" the limit is {options.max_choices} choices together",
            "n",
        )
    needs_logprobs = num_generated > num_choices
    params = _sampling_params(parsed, options, needs_logprobs)
    requests = tuple(
        CompletionRequest(
            id=call_id if position == 0 else f"{call_id}.{position}",
            prompt=prompt,
            params=params,
            max_tokens=_max_tokens(parsed, prompt, options),
            num_choices=num_generated,
            echo=bool(parsed.echo),
            tenant=tenant,
            user=parsed.user or "",
            priority=_priority(parsed),
            deadline_ms=parsed.deadline_ms,
            identity=_identity(parsed, prompt, tenant),
        )
        for position, prompt in enumerate(prompts)
    )
    return CompletionCall(
        id=call_id,
        requests=requests,
        num_choices=num_choices,
        shows_logprobs=parsed.logprobs is not None,
        streams=streams,
        includes_usage=parsed.stream_options is not None and bool(parsed.stream_options.include_usage),
    )


def _bad_request(error: ValidationError) -> BadRequest:
    """Pydantic's first complaint as one sentence; its input is left out, it may be megabytes."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if not first["loc"]:
        return BadRequest(f"the request body cannot be read: {first['msg']}")
    field = str(first["loc"][0])
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return BadRequest(f"`{field}` is missing", field)
    where = field if field in _SHAPES else ".".join(str(part) for part in first["loc"])
    message = first["msg"][0].lower() + first["msg"][1:]
    return BadRequest(f"`{where}`: {_SHAPES.get(field, message)}", field)


def _refuse_unsupported(parsed: CompletionBody) -> None:
    unknown = []
    for name, value in (parsed.model_extra or {}).items():
        if name not in _NEUTRAL_VALUES:
            unknown.append(name[:64])
        elif value is not None and value != _NEUTRAL_VALUES[name]:
            raise UnsupportedField(name, _short(value), _NEUTRAL_VALUES[name])
    if parsed.stream_options is not None and parsed.stream_options.continuous_usage_stats:
        raise UnsupportedField("stream_options.continuous_usage_stats", True, False)
    if unknown:
        _log.debug("ignored unknown fields", extra=fields(names=unknown[:20]))


def _short(value: object) -> object:
    return value if isinstance(value, bool | int | float) else f"{str(value)[:40]}"


def _prompts(parsed: CompletionBody) -> list[str | tuple[int, ...] | Document]:
    """One entry per prompt; a suffix or a path makes the only one a document."""
    path = (parsed.metadata or {}).get("path")
    if path is not None and not isinstance(path, str):
        raise BadRequest("`metadata.path` must be a text", "metadata")
    if parsed.suffix is not None or path is not None:
        if not isinstance(parsed.prompt, str):
            raise BadRequest("with a `suffix` or `metadata.path`, `prompt` must be one text", "prompt")
        return [Document(parsed.prompt, parsed.suffix or "", path)]
    if isinstance(parsed.prompt, str):
        return [parsed.prompt]
    if not parsed.prompt:
        raise BadRequest("`prompt` is an empty list", "prompt")
    if isinstance(parsed.prompt[0], int):
        return [_token_ids(parsed.prompt)]
    return [entry if isinstance(entry, str) else _token_ids(entry) for entry in parsed.prompt]


def _token_ids(entry: Any) -> tuple[int, ...]:
    return tuple(entry)


def _priority(parsed: CompletionBody) -> Priority:
    """Nobody types while a prompt is merely scored."""
    scores_only = bool(parsed.echo) and parsed.logprobs is not None and parsed.max_tokens == 0
    return parsed.priority or ("batch" if scores_only else "interactive")


def _identity(parsed: CompletionBody, prompt: object, tenant: str) -> Identity | None:
    """Only what the client itself names: without a user and a path nobody is superseded."""
    if parsed.user and isinstance(prompt, Document) and prompt.path:
        return Identity(tenant, parsed.user, prompt.path)
    return None


def _max_tokens(parsed: CompletionBody, prompt: object, options: ApiOptions) -> int:
    if parsed.max_tokens is not None:
        return parsed.max_tokens
    return options.editor_max_tokens if isinstance(prompt, Document) else options.default_max_tokens


def _sampling_params(parsed: CompletionBody, options: ApiOptions, needs_logprobs: bool) -> SamplingParams:
    neutral = SamplingParams()
    stop = (parsed.stop,) if isinstance(parsed.stop, str) else tuple(parsed.stop or ())
    return SamplingParams(
        temperature=_given(parsed.temperature, options.default_temperature),
        top_k=max(0, _given(parsed.top_k, neutral.top_k)),
        top_p=_given(parsed.top_p, neutral.top_p),
        min_p=_given(parsed.min_p, neutral.min_p),
        repetition_penalty=_given(parsed.repetition_penalty, neutral.repetition_penalty),
        presence_penalty=_given(parsed.presence_penalty, neutral.presence_penalty),
        frequency_penalty=_given(parsed.frequency_penalty, neutral.frequency_penalty),
        logit_bias=parsed.logit_bias or {},
        # Any 64-bit seed is a seed, -1 too.
        seed=None if parsed.seed is None else parsed.seed % 2**64,
        logprobs=0 if parsed.logprobs is None and needs_logprobs else parsed.logprobs,
        stop=stop,
        stop_token_ids=tuple(parsed.stop_token_ids or ()),
        ignore_eos=bool(parsed.ignore_eos),
    )


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
