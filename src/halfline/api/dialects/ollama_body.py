"""Ollama's POST /api/generate and /api/chat as clients send them, turned into `CompletionRequest`s.

A prompt is wrapped in the model's chat template unless it is raw, has a suffix, or already holds infill markers: some
clients put them in and forget to say that it is raw.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.call import Arrival
from halfline.api.chat_template import Message
from halfline.api.dialects.chat_body import chat_request
from halfline.api.dialects.chat_messages import MessagesField, read_messages
from halfline.api.dialects.infill_prompt import read_infill_prompt
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.sampling_fields import either, temperature
from halfline.api.dialects.unserved import refuse_unserved
from halfline.errors import PromptTooLong, UnsupportedField
from halfline.request import CompletionRequest, Document, SamplingParams

_TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(max_length=1 << 20, fail_fast=True)
]

_Texts = Annotated[list[str], Field(max_length=64, fail_fast=True)]


class _Options(BaseModel):
    """What steers Ollama's own memory and threads (`num_ctx`, `num_gpu`, `use_mmap` …) is ignored."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    num_predict: Annotated[int, Field(ge=-2, le=2**31 - 1)] | None = None
    temperature: float | None = None
    top_k: Annotated[int, Field(le=2**31 - 1)] | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: str | _Texts | None = None


class _OllamaFields(BaseModel):
    """What both routes share."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: str | None = None
    options: _Options | None = None
    stream: bool | None = Field(None, description="True unless said.")
    format: Any = Field(None, description="Not served.")
    think: Any = Field(None, description="Not served.")
    keep_alive: Any = Field(None, description="Ignored: the model stays.")


class GenerateBody(_OllamaFields):
    """POST /api/generate."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    raw: bool | None = None
    template: str | None = Field(None, description="Not served.")
    context: _TokenIds | None = Field(
        None, description="What an earlier reply gave as `context`: the conversation that this goes on with."
    )
    images: Any = Field(None, description="Not served.")


class OllamaChatBody(_OllamaFields):
    """POST /api/chat."""

    messages: MessagesField = None
    tools: Any = Field(None, description="Not served.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaCall:
    """A body understood. `request` None: the client only wants the model to be there. `prompt_ids` are those of a
    conversation to be gone on with; None of anything else.
    """

    model: str
    request: CompletionRequest | None
    streams: bool
    prompt_ids: tuple[int, ...] | None = None


def read_generate(body: bytes, arrival: Arrival) -> OllamaCall:
    """Raises BadRequest."""
    given = read_body(GenerateBody, body)
    _refuse(given, images=given.images, template=given.template)
    streams = given.stream is not False
    model = arrival.loaded.model.name
    if not given.prompt and not given.suffix:
        return OllamaCall(model=model, request=None, streams=streams)
    prompt = given.prompt or ""
    document = Document(prompt, given.suffix) if given.suffix else read_infill_prompt(prompt)
    if given.raw or document is not None:
        _refuse(given, context=given.context)  # as in Ollama: it belongs to a conversation
    if document is not None:
        return OllamaCall(model=model, request=_editor(given, document, arrival), streams=streams)
    if given.raw:
        return OllamaCall(model=model, request=_raw(given, prompt, arrival), streams=streams)
    messages: list[Message] = [{"role": "user", "content": prompt}]
    if given.system:
        messages.insert(0, {"role": "system", "content": given.system})
    return _chat(given, messages, arrival, tuple(given.context or ()))


def read_ollama_chat(body: bytes, arrival: Arrival) -> OllamaCall:
    """Raises BadRequest."""
    given = read_body(OllamaChatBody, body)
    _refuse(given, tools=given.tools)
    if not given.messages:
        return OllamaCall(model=arrival.loaded.model.name, request=None, streams=given.stream is not False)
    return _chat(given, read_messages(given.messages), arrival)


def _chat(
    given: _OllamaFields, messages: list[Message], arrival: Arrival, before: tuple[int, ...] = ()
) -> OllamaCall:
    """`before` are the tokens of what was said so far."""
    request = chat_request(messages, arrival, _params(given, arrival), max_tokens=_num_wanted(given))
    assert isinstance(request.prompt, tuple)
    prompt_ids = (*before, *request.prompt)
    limit = arrival.loaded.model.max_context
    room = limit - len(prompt_ids)
    if room < min(request.max_tokens, 1):
        raise PromptTooLong(len(prompt_ids), _num_wanted(given), limit, field="context")
    return OllamaCall(
        model=arrival.loaded.model.name,
        request=replace(request, prompt=prompt_ids, max_tokens=min(request.max_tokens, room)),
        streams=given.stream is not False,
        prompt_ids=prompt_ids,
    )


def _editor(given: _OllamaFields, document: Document, arrival: Arrival) -> CompletionRequest:
    return CompletionRequest(
        id=arrival.call_id,
        prompt=document,
        params=_params(given, arrival),
        max_tokens=either(_num_wanted(given), arrival.options.find_profile(None).max_new_tokens),
        tenant=arrival.tenant,
    )


def _raw(given: _OllamaFields, prompt: str, arrival: Arrival) -> CompletionRequest:
    """Special tokens are read in it, as in Ollama."""
    loaded = arrival.loaded
    loaded.tokenizer.check_may_fit(prompt, loaded.model.max_context)
    token_ids = loaded.chat.marked.encode(prompt, add_bos=loaded.tokenizer.adds_bos)
    wanted = either(_num_wanted(given), arrival.options.chat_max_tokens)
    room = loaded.model.max_context - max(len(token_ids), 1)
    if room < min(wanted, 1):
        raise PromptTooLong(len(token_ids), _num_wanted(given), loaded.model.max_context)
    return CompletionRequest(
        id=arrival.call_id,
        prompt=tuple(token_ids),
        params=_params(given, arrival),
        max_tokens=min(wanted, room),
        tenant=arrival.tenant,
    )


def _refuse(given: _OllamaFields, **others: object) -> None:
    """What would change the answer and is not served; empty values ask for nothing."""
    for name, value in {"format": given.format, "think": given.think, **others}.items():
        if value:
            shown = value[:40] if isinstance(value, str) else True
            raise UnsupportedField(name, shown, None)
    if given.options is not None:
        refuse_unserved(given.options.model_extra or {})


def _num_wanted(given: _OllamaFields) -> int | None:
    """None: as many as the server finds right."""
    wanted = None if given.options is None else given.options.num_predict
    return None if wanted is None or wanted < 0 else wanted


def _params(given: _OllamaFields, arrival: Arrival) -> SamplingParams:
    options, neutral = given.options or _Options(), SamplingParams()
    profile = arrival.options.find_profile(None)
    stop = (options.stop,) if isinstance(options.stop, str) else tuple(options.stop or ())
    return SamplingParams(
        temperature=temperature(profile, options.temperature),
        top_k=max(0, either(options.top_k, profile.top_k)),
        top_p=either(options.top_p, profile.top_p),
        min_p=either(options.min_p, profile.min_p),
        repetition_penalty=either(options.repeat_penalty, neutral.repetition_penalty),
        presence_penalty=either(options.presence_penalty, neutral.presence_penalty),
        frequency_penalty=either(options.frequency_penalty, neutral.frequency_penalty),
        seed=None if options.seed is None or options.seed < 0 else options.seed,
        stop=tuple(text for text in stop if text),
    )
