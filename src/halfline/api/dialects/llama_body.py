"""llama-server's POST /completion and POST /infill as clients send them, turned into `CompletionRequest`s.

Numbers may be written as their servers take them: 128.0 is 128. An option that only steers llama-server's own memory
(`id_slot`, `cache_prompt`, `n_cache_reuse`, `t_max_prompt_ms` …) is no business of ours and ignored; one that would
change the answer and is not served is refused, unless it asks for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.call import Arrival
from halfline.api.dialects.infill_prompt import read_infill_prompt
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.sampling_fields import MAX_IDS, STOP_SHAPE, either, only_named, temperature
from halfline.api.dialects.unserved import refuse_unserved
from halfline.errors import BadRequest, PromptTooLong
from halfline.request import Bounds, CompletionRequest, Document, Part, SamplingParams

Prompt = tuple[int, ...] | Document

_RANDOM_SEEDS = (-1, 2**32 - 1)

_VARIED = 0.8  # llama-server's own temperature

_BANNED = -1000.0  # a logit bias that `false` stands for

_SHAPES = {"stop": STOP_SHAPE}


class LlamaFields(BaseModel):
    """What both routes share."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    model: str | None = None
    n_predict: Annotated[int, Field(ge=-2, le=2**31 - 1)] | None = Field(
        None, description="New tokens at most; -1 is as many as fit; 0 only computes the prompt."
    )
    max_tokens: Annotated[int, Field(ge=-2, le=2**31 - 1)] | None = Field(
        None, description="The same as `n_predict`."
    )
    n_cmpl: int | None = Field(None, description="Choices; more than one are answered as a list.")
    n: int | None = Field(None, description="The same as `n_cmpl`.")
    n_indent: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None, description="The answer ends at a new line indented by less."
    )
    t_max_predict_ms: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = Field(
        None, description="Milliseconds from the first text on, once there is a line break."
    )
    stop: str | Annotated[list[str], Field(max_length=64, fail_fast=True)] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_k: Annotated[int, Field(le=2**31 - 1)] | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Annotated[Any, Field(description="Pairs of a token id or text and a bias, or `false`.")] = (
        None
    )
    ignore_eos: bool | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    samplers: str | list[str] | None = Field(None, description="Filters that are not named are off.")
    n_probs: Annotated[int, Field(ge=0, le=100)] | None = None
    return_tokens: bool | None = None
    timings_per_token: bool | None = None
    response_fields: list[str] | None = Field(
        None, description="Only these of the reply; `a/b` is the field `b` of `a`, under the name `a/b`."
    )

    @property
    def num_wanted(self) -> int | None:
        """New tokens at most; None: as many as the server finds right."""
        wanted = self.max_tokens if self.n_predict is None else self.n_predict
        return None if wanted is None or wanted < 0 else wanted


class LlamaCompletionBody(LlamaFields):
    """POST /completion."""

    prompt: Annotated[
        Any, Field(description="A text, token ids, both mixed in a list, or a list of such prompts.")
    ] = None


class _Extra(BaseModel):
    """Clients put other things beside; one sends its `time` as a list."""

    text: str = ""
    filename: str | None = None


class InfillBody(LlamaFields):
    """POST /infill."""

    input_prefix: str | None = Field(None, description="The lines before the cursor's.")
    input_suffix: str | None = Field(None, description="What stands behind the cursor.")
    prompt: str | None = Field(None, description="The cursor's line up to the cursor.")
    input_extra: list[_Extra] | None = Field(None, description="Pieces of other files: `filename`, `text`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCall:
    """A body understood. `given` is what its reply repeats and selects by; `prompts` one text per prompt."""

    given: LlamaFields
    prompts: tuple[str, ...]
    num_choices: int
    requests: tuple[CompletionRequest, ...]


def read_completion(body: bytes, arrival: Arrival) -> LlamaCall:
    """Raises BadRequest. A prompt that is an infill template becomes the document it was made from."""
    given = read_body(LlamaCompletionBody, body, _SHAPES)
    if given.prompt is None:
        raise BadRequest("`prompt` is missing", "prompt")
    prompts = _split(given.prompt, arrival.options.max_choices)
    texts = tuple(prompt if isinstance(prompt, str) else "" for prompt in prompts)
    return _call(given, arrival, [_read_prompt(prompt, arrival) for prompt in prompts], texts)


def read_infill(body: bytes, arrival: Arrival) -> LlamaCall:
    """Raises BadRequest. `prompt` is the end of what stands before the cursor."""
    given = read_body(InfillBody, body, _SHAPES)
    for name in ("input_prefix", "input_suffix"):
        if getattr(given, name) is None:
            raise BadRequest(f'"{name}" is required', name)
    parts = tuple(Part(extra.text, extra.filename or None) for extra in given.input_extra or ())
    prefix = (given.input_prefix or "") + (given.prompt or "")
    return _call(given, arrival, [Document(prefix, given.input_suffix or "", None, parts)], ("",))


def _split(prompt: Any, max_prompts: int) -> Sequence[Any]:
    """One entry per prompt: a list of texts or of lists is several, any other list is one."""
    if isinstance(prompt, list) and prompt:
        if all(isinstance(entry, str) for entry in prompt) or any(isinstance(e, list) for e in prompt):
            if len(prompt) > max_prompts:
                raise BadRequest(f"`prompt` has {len(prompt)} entries, the limit is {max_prompts}", "prompt")
            return prompt
    return [prompt]


def _read_prompt(prompt: Any, arrival: Arrival) -> Prompt:
    if isinstance(prompt, str):
        document = read_infill_prompt(prompt)
        if document is not None:
            return document
    # Looked at unencoded first: what is far too long would be read for half a minute, and others would wait.
    pieces = prompt if isinstance(prompt, list) else [prompt]
    marked, adds_bos = arrival.loaded.chat.marked, arrival.loaded.tokenizer.adds_bos
    fewest = sum(
        arrival.loaded.tokenizer.fewest_tokens(each) if isinstance(each, str) else 1 for each in pieces
    )
    if fewest > arrival.loaded.model.max_context:
        raise PromptTooLong(fewest, 0, arrival.loaded.model.max_context, counted=False)
    token_ids: list[int] = []
    for position, piece in enumerate(pieces):
        if isinstance(piece, str):
            # Their servers read special tokens in prompts, and clients send chats that way.
            token_ids += marked.encode(piece, add_bos=adds_bos and position == 0)
        elif type(piece) is int and 0 <= piece < 2**31:
            token_ids.append(piece)
        else:
            raise BadRequest("`prompt`: it must be a text, token ids, or a list of such prompts", "prompt")
    return tuple(token_ids)


def _call(
    given: LlamaFields, arrival: Arrival, prompts: Sequence[Prompt], texts: tuple[str, ...]
) -> LlamaCall:
    refuse_unserved(given.model_extra or {})
    num_choices = either(given.n_cmpl, either(given.n, 1))
    most = max(1, arrival.options.max_choices // len(prompts)) if prompts else 1
    if not 1 <= num_choices <= most:
        # The words that a client looks for.
        raise BadRequest(f"Field 'n_cmpl': Value must be between 1 and {most}", "n_cmpl")
    params = _params(given, arrival)
    requests = [
        request
        for position, prompt in enumerate(prompts)
        for request in _requests(given, arrival, prompt, params, num_choices, position)
    ]
    return LlamaCall(given=given, prompts=texts, num_choices=num_choices, requests=tuple(requests))


def _requests(
    given: LlamaFields,
    arrival: Arrival,
    prompt: Prompt,
    params: SamplingParams,
    num_choices: int,
    position: int,
) -> list[CompletionRequest]:
    """Where several choices and no temperature are asked for: the likeliest answer, and others beside it."""
    likeliest = num_choices > 1 and given.temperature is None
    varied = replace(params, temperature=_VARIED) if likeliest else params
    shares = [(params, 1), (varied, num_choices - 1)] if likeliest else [(params, num_choices)]
    limit = given.t_max_predict_ms
    return [
        CompletionRequest(
            id=f"{arrival.call_id}.{position}.{share}" if position or share else arrival.call_id,
            prompt=prompt,
            params=share_params,
            max_tokens=_max_tokens(given, prompt, arrival),
            bounds=Bounds(
                min_indent=given.n_indent or 0,
                line_time_ms=limit if limit is not None and limit > 0 else None,
            ),
            num_choices=count,
            tenant=arrival.tenant,
            # A warm-up: welcome when nobody types.
            priority="idle" if given.num_wanted == 0 else "interactive",
        )
        for share, (share_params, count) in enumerate(shares)
    ]


def _max_tokens(given: LlamaFields, prompt: Prompt, arrival: Arrival) -> int:
    if isinstance(prompt, Document):
        return either(given.num_wanted, arrival.options.find_profile(None).max_new_tokens)
    room = arrival.loaded.model.max_context - max(len(prompt), 1)
    if room < 0 or (room == 0 and given.num_wanted != 0):
        raise PromptTooLong(len(prompt), given.num_wanted, arrival.loaded.model.max_context)
    return min(either(given.num_wanted, room), room)


def _params(given: LlamaFields, arrival: Arrival) -> SamplingParams:
    neutral, profile = SamplingParams(), arrival.options.find_profile(None)
    stop = (given.stop,) if isinstance(given.stop, str) else tuple(given.stop or ())
    params = SamplingParams(
        temperature=max(0.0, temperature(profile, given.temperature)),
        top_k=max(0, either(given.top_k, profile.top_k)),
        top_p=either(given.top_p, profile.top_p),
        min_p=either(given.min_p, profile.min_p),
        repetition_penalty=either(given.repeat_penalty, neutral.repetition_penalty),
        presence_penalty=either(given.presence_penalty, neutral.presence_penalty),
        frequency_penalty=either(given.frequency_penalty, neutral.frequency_penalty),
        logit_bias=_logit_bias(given.logit_bias, arrival),
        seed=None if given.seed in (None, *_RANDOM_SEEDS) else (given.seed or 0) % 2**64,
        logprobs=given.n_probs or None,
        stop=tuple(text for text in stop if text),
        ignore_eos=bool(given.ignore_eos),
    )
    return only_named(params, given.samplers)


def _logit_bias(given: Any, arrival: Arrival) -> dict[int, float]:
    if given is None:
        return {}
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or len(pairs) > MAX_IDS:
        raise BadRequest(f"`logit_bias`: it must be at most {MAX_IDS} pairs", "logit_bias")
    biases: dict[int, float] = {}
    num_tokens = 0
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise BadRequest("`logit_bias`: each entry must be a pair of a token and a bias", "logit_bias")
        token_ids = _token_ids(pair[0], arrival)
        num_tokens += len(token_ids)
        if num_tokens > MAX_IDS:  # and no more texts are encoded
            raise BadRequest(f"`logit_bias` names more than {MAX_IDS} tokens", "logit_bias")
        biases |= dict.fromkeys(token_ids, _bias(pair[1]))
    return biases


def _token_ids(token: Any, arrival: Arrival) -> Sequence[int]:
    if type(token) is int:
        return [token]
    if isinstance(token, str):
        if token.isascii() and token.isdigit():
            return [int(token[:10])]
        return arrival.loaded.tokenizer.encode(token[:4096], add_bos=False, continues=True)
    raise BadRequest("`logit_bias`: a token is an id or a text", "logit_bias")


def _bias(bias: Any) -> float:
    if bias is False:
        return _BANNED
    if isinstance(bias, bool) or not isinstance(bias, int | float):
        raise BadRequest("`logit_bias`: a bias is a number, or false", "logit_bias")
    return float(min(max(bias, _BANNED), -_BANNED))
