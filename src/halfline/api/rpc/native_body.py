"""halfline.v1.CompletionRequest as clients send it, turned into a `CompletionRequest`: the native dialect.

Its fields are those of the JSON dialects, under the same names, with the same bounds, and refused in the same words.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from google.protobuf.message import DecodeError, Message
from pydantic import ConfigDict, Field

from halfline.api.call import Arrival, Call
from halfline.api.dialects.json_body import read_fields
from halfline.api.dialects.openai_prompt import read_prompts
from halfline.api.dialects.sampling_fields import STOP_SHAPE, Count, SamplingFields, either, sampling_params
from halfline.api.rpc import halfline_pb2 as pb
from halfline.api.rpc.native_reply import NativeReply
from halfline.errors import BadRequest
from halfline.request import Bounds, CompletionRequest, Document, Identity, Part, Priority

_PRIORITIES: Mapping[int, Priority] = {
    pb.PRIORITY_UNSPECIFIED: "interactive",
    pb.INTERACTIVE: "interactive",
    pb.BATCH: "batch",
    pb.IDLE: "idle",
}

_NOT_CHECKED_HERE = ("text", "token_ids", "document", "priority", "sampling", "bounds")


class _Fields(SamplingFields):
    """All that has bounds, of the request and of its `sampling`."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    logprobs: Annotated[int, Field(ge=0, le=100)] | None = None
    max_tokens: Count | None = None
    num_choices: Annotated[int, Field(ge=1, le=128)] = 1
    echo: bool = False
    user: str = Field("", max_length=1024)
    deadline_ms: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    postprocess: bool | None = None
    min_confidence: float | None = None


def read_native(body: bytes, arrival: Arrival) -> Call:
    """One request. Raises BadRequest, naming the field where it can."""
    try:
        given = pb.CompletionRequest.FromString(body)
    except DecodeError:
        raise BadRequest("the message is no halfline.v1.CompletionRequest") from None
    checked = read_fields(_Fields, _fields_of(given), {"stop": STOP_SHAPE})
    options = arrival.options
    if checked.num_choices > options.max_choices:
        raise BadRequest(
            f"`num_choices` is {checked.num_choices}, the limit is {options.max_choices}", "num_choices"
        )
    max_tokens = either(checked.max_tokens, options.find_profile(checked.profile).max_new_tokens)
    prompt = _prompt(given, max_tokens, arrival)
    request = CompletionRequest(
        id=arrival.call_id,
        prompt=prompt,
        params=sampling_params(checked, options, checked.logprobs),
        max_tokens=max_tokens,
        bounds=_bounds(given.bounds),
        num_choices=checked.num_choices,
        echo=checked.echo,
        tenant=arrival.tenant,
        user=checked.user,
        priority=_priority(given),
        deadline_ms=checked.deadline_ms,
        identity=_identity(arrival.tenant, checked.user, prompt),
        postprocess=checked.postprocess,
        min_confidence=checked.min_confidence,
    )
    reply = NativeReply(arrival.call_id, arrival.loaded.model.name)
    return Call(id=arrival.call_id, requests=(request,), reply=reply)


def _fields_of(given: pb.CompletionRequest) -> dict[str, Any]:
    """What was said, of the request and its `sampling` together: none of their names are the same."""
    own = {name: value for name, value in _said(given).items() if name not in _NOT_CHECKED_HERE}
    sampling = _said(given.sampling)
    if "schedule" in sampling:
        sampling["schedule"] = _said(given.sampling.schedule)
    for name in ("stop", "stop_token_ids"):
        if name in sampling:
            sampling[name] = list(sampling[name])
    if "logit_bias" in sampling:
        sampling["logit_bias"] = dict(sampling["logit_bias"])
    return own | sampling


def _said(message: Message) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields()}


def _prompt(
    given: pb.CompletionRequest, max_tokens: int, arrival: Arrival
) -> str | tuple[int, ...] | Document:
    match given.WhichOneof("prompt"):
        case "text":
            return given.text
        case "token_ids":
            (token_ids,) = read_prompts(
                list(given.token_ids.ids), max_tokens, 1, arrival.loaded.model.max_context, "token_ids"
            )
            return token_ids
        case "document":
            return _document(given.document)
        case _:
            raise BadRequest("`prompt` is missing: send `text`, `token_ids` or a `document`", "prompt")


def _document(given: pb.Document) -> Document:
    parts = tuple(Part(part.text, part.path or None) for part in given.parts)
    return Document(given.prefix, given.suffix, given.path or None, parts)


def _priority(given: pb.CompletionRequest) -> Priority:
    found = _PRIORITIES.get(given.priority)
    if found is None:
        raise BadRequest(f"`priority` is {given.priority}, which is none of its values", "priority")
    return found


def _identity(tenant: str, user: str, prompt: object) -> Identity | None:
    """Only what the client itself names: without a user and a path nobody is superseded."""
    if user and isinstance(prompt, Document) and prompt.path:
        return Identity(tenant, user, prompt.path)
    return None


def _bounds(given: pb.Bounds) -> Bounds:
    for name in ("min_indent", "line_time_ms"):
        if getattr(given, name) >= 2**31:
            raise BadRequest(f"`{name}` is {getattr(given, name)}, it must be less than 2147483648", name)
    return Bounds(min_indent=given.min_indent, line_time_ms=given.line_time_ms or None)
