"""Mistral's POST /v1/fim/completions, turned into a `CompletionRequest`; the reply is a chat's (`chat_reply`)."""

from typing import Annotated

from pydantic import ConfigDict, Field

from halfline.api.call import Arrival
from halfline.api.dialects.chat_body import StreamOptions
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.sampling_fields import STOP_SHAPE, Count, SamplingFields, either, sampling_params
from halfline.api.dialects.unserved import refuse_unserved
from halfline.errors import BadRequest
from halfline.request import CompletionRequest, Document


class FimBody(SamplingFields):
    """`prompt` stands before the cursor, `suffix` behind it."""

    model_config = ConfigDict(
        strict=True, extra="allow", allow_inf_nan=False, json_schema_extra={"required": ["prompt"]}
    )

    model: str | None = None
    prompt: str | None = None
    suffix: str | None = None
    max_tokens: Count | None = None
    random_seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = Field(
        None, description="Usage comes in an event only if asked for."
    )


def read_fim(body: bytes, arrival: Arrival) -> tuple[FimBody, CompletionRequest]:
    """Raises BadRequest."""
    given = read_body(FimBody, body, {"stop": STOP_SHAPE})
    refuse_unserved(given.model_extra or {})
    if given.prompt is None:
        raise BadRequest("`prompt` is missing", "prompt")
    if given.seed is None:
        given.seed = given.random_seed
    request = CompletionRequest(
        id=arrival.call_id,
        prompt=Document(given.prompt, given.suffix or ""),
        params=sampling_params(given, arrival.options, None),
        max_tokens=either(given.max_tokens, arrival.options.find_profile(given.profile).max_new_tokens),
        tenant=arrival.tenant,
    )
    return given, request
