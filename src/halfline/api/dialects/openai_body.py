"""OpenAI's POST /v1/completions as clients send it, turned into `CompletionRequest`s.

One rule for every field. Unknown: ignored, its name in the debug log. Known but not served: accepted at its
neutral value or null, else UnsupportedField. Null always means "left out".
"""

import logging
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.dialects.infill_prompt import read_infill_prompt
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.openai_prompt import PromptField, read_prompts
from halfline.api.dialects.sampling_fields import STOP_SHAPE, Count, SamplingFields, either, sampling_params
from halfline.api.dialects.unserved import refuse_unserved
from halfline.api.options import ApiOptions
from halfline.errors import BadRequest, UnsupportedField
from halfline.request import CompletionRequest, Document, Identity, Priority
from halfline.telemetry.log import fields

_log = logging.getLogger(__name__)


_MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_new_tokens")


class _Metadata(BaseModel):
    """What else is in it is the client's own business."""

    model_config = ConfigDict(strict=True, extra="ignore")

    path: str | None = None


class _StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _OllamaOptions(BaseModel):
    """What twinny says this way in every dialect. Below 0 is as many tokens as the server finds right."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    num_predict: Annotated[int, Field(ge=-2, le=2**31 - 1)] | None = None
    temperature: float | None = None
    stop: str | Annotated[list[str], Field(max_length=64, fail_fast=True)] | None = None


class CompletionBody(SamplingFields):
    """The JSON body. Types are strict: a number in quotes is a mistake, not a number."""

    model_config = ConfigDict(
        strict=True, extra="allow", allow_inf_nan=False, json_schema_extra={"required": ["prompt"]}
    )

    model: str | None = Field(None, description="Any name; the model served is reported in the reply.")
    prompt: PromptField = None
    suffix: str | None = Field(None, description="Text behind the cursor; asks for editor mode.")
    metadata: _Metadata | None = Field(None, description="`path`, the document's path, asks for editor mode.")
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = Field(None, description="The same as `max_tokens`.")
    max_new_tokens: Count | None = Field(None, description="The same as `max_tokens`.")
    postprocess: bool | None = Field(
        None, description="In editor mode: whether the answer is trimmed to what fits at the cursor."
    )
    min_confidence: float | None = Field(
        None, description="How probable its first tokens have to be, 0 to 1, for an answer to be shown."
    )
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    user: str | None = Field(
        None,
        max_length=1024,
        description="Whose request it is, for fair shares; with `metadata.path` it supersedes the user's older"
        " request for that path.",
    )
    priority: Priority | None = Field(
        None, description="`interactive` unless said; `batch` where a prompt is only scored."
    )
    deadline_ms: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Milliseconds from now by which the answer is wanted; orders the queue."
    )

    options: _OllamaOptions | None = Field(
        None,
        description="Ollama's, for clients that speak its language here too; the fields themselves go before.",
    )

    @property
    def num_wanted(self) -> int | None:
        """New tokens at most, under any of its names; None: not said."""
        return next((wanted for name in _MAX_TOKENS if (wanted := getattr(self, name)) is not None), None)

    def take_options(self) -> None:
        """What stands in `options` only is what the fields say from now on."""
        options = self.options or _OllamaOptions()
        if self.num_wanted is None and options.num_predict is not None and options.num_predict >= 0:
            self.max_tokens = options.num_predict
        self.temperature = either(self.temperature, options.temperature)
        self.stop = either(self.stop, options.stop)


B = TypeVar("B", bound=CompletionBody)

_SHAPES = {
    "stop": STOP_SHAPE,
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

    @property
    def selects(self) -> bool:
        """Whether more is generated than returned."""
        return any(request.num_choices > self.num_choices for request in self.requests)


def read_completion_call(
    body: bytes, call_id: str, tenant: str, options: ApiOptions, max_context: int
) -> CompletionCall:
    """`max_context`: more token ids than that are refused unread.

    Raises BadRequest, naming the field where it can, for anything that cannot be served. Takes less than a second for
    any 8 MB.
    """
    return completion_call(parse_completion(CompletionBody, body), call_id, tenant, options, max_context)


def parse_completion(model: type[B], body: bytes) -> B:
    """The body of this dialect, or of one that adds fields to it. Raises BadRequest."""
    parsed = read_body(model, body, _SHAPES)
    _refuse_unsupported(parsed)
    parsed.take_options()
    return parsed


def completion_call(
    parsed: CompletionBody, call_id: str, tenant: str, options: ApiOptions, max_context: int
) -> CompletionCall:
    """Raises BadRequest for fields that contradict each other."""
    names = [name for name in _MAX_TOKENS if getattr(parsed, name) is not None]
    if len(names) > 1:
        raise BadRequest(f"`{names[1]}` is the same as `{names[0]}`; send one of them", names[0])
    num_choices = parsed.n or 1
    num_generated = parsed.best_of or num_choices
    if num_generated < num_choices:
        raise BadRequest(f"`best_of` is {num_generated}, less than `n`, which is {num_choices}", "best_of")
    streams = bool(parsed.stream)
    if streams and num_generated > num_choices:
        raise BadRequest(
            "`best_of` greater than `n` cannot be streamed: the best is known at the end", "best_of"
        )
    max_tokens = either(parsed.num_wanted, options.find_profile(parsed.profile).max_new_tokens)
    prompts = _prompts(parsed, options, max_tokens, max_context)
    if len(prompts) * num_generated > options.max_choices:
        raise BadRequest(
            f"{len(prompts)} prompts with {num_generated} choices each were asked for,"
            f" the limit is {options.max_choices} choices together",
            "n",
        )
    needs_logprobs = num_generated > num_choices
    params = sampling_params(
        parsed, options, 0 if parsed.logprobs is None and needs_logprobs else parsed.logprobs
    )
    requests = tuple(
        CompletionRequest(
            id=call_id if position == 0 else f"{call_id}.{position}",
            prompt=prompt,
            params=params,
            max_tokens=max_tokens,
            num_choices=num_generated,
            echo=bool(parsed.echo),
            tenant=tenant,
            user=parsed.user or "",
            priority=_priority(parsed),
            deadline_ms=parsed.deadline_ms,
            identity=_identity(parsed, prompt, tenant),
            postprocess=parsed.postprocess,
            min_confidence=parsed.min_confidence,
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


def _refuse_unsupported(parsed: CompletionBody) -> None:
    unknown = refuse_unserved(parsed.model_extra or {})
    if parsed.stream_options is not None and parsed.stream_options.continuous_usage_stats:
        raise UnsupportedField("stream_options.continuous_usage_stats", True, False)
    if unknown:
        _log.debug("ignored unknown fields", extra=fields(names=unknown[:20]))


def _prompts(
    parsed: CompletionBody, options: ApiOptions, max_tokens: int, max_context: int
) -> list[str | tuple[int, ...] | Document]:
    """One entry per prompt; a suffix or a path makes the only one a document, and so do infill markers in it."""
    path = None if parsed.metadata is None else parsed.metadata.path
    if parsed.suffix is not None or path is not None:
        if not isinstance(parsed.prompt, str):
            raise BadRequest("with a `suffix` or `metadata.path`, `prompt` must be one text", "prompt")
        return [Document(parsed.prompt, parsed.suffix or "", path)]
    if isinstance(parsed.prompt, str) and not parsed.echo:
        document = read_infill_prompt(parsed.prompt)
        if document is not None:
            return [document]
    return [*read_prompts(parsed.prompt, max_tokens, options.max_choices, max_context)]


def _priority(parsed: CompletionBody) -> Priority:
    """Nobody types while a prompt is merely scored."""
    scores_only = bool(parsed.echo) and parsed.logprobs is not None and parsed.num_wanted == 0
    return parsed.priority or ("batch" if scores_only else "interactive")


def _identity(parsed: CompletionBody, prompt: object, tenant: str) -> Identity | None:
    """Only what the client itself names: without a user and a path nobody is superseded."""
    if parsed.user and isinstance(prompt, Document) and prompt.path:
        return Identity(tenant, parsed.user, prompt.path)
    return None
