"""The fields by which OpenAI's dialects, and servers that extend them, say how tokens are chosen."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, Field

from halfline.api.options import ApiOptions
from halfline.request import SamplingParams

T = TypeVar("T")

MAX_IDS = 4096  # in `stop_token_ids` and `logit_bias`

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]

STOP_SHAPE = "it must be a text or a list of at most 64 texts"


class SamplingFields(BaseModel):
    """Null always means "left out"."""

    stop: str | Annotated[list[str], Field(max_length=64, fail_fast=True)] | None = None
    stop_token_ids: Annotated[list[Count], Field(max_length=MAX_IDS, fail_fast=True)] | None = None
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
    logit_bias: Annotated[dict[Count, float], Field(max_length=MAX_IDS, fail_fast=True)] | None = None


def sampling_params(given: SamplingFields, options: ApiOptions, logprobs: int | None) -> SamplingParams:
    """`logprobs` as in SamplingParams. Raises BadRequest for a value out of its range."""
    neutral = SamplingParams()
    stop = (given.stop,) if isinstance(given.stop, str) else tuple(given.stop or ())
    return SamplingParams(
        temperature=either(given.temperature, options.default_temperature),
        top_k=max(0, either(given.top_k, neutral.top_k)),
        top_p=either(given.top_p, neutral.top_p),
        min_p=either(given.min_p, neutral.min_p),
        repetition_penalty=either(given.repetition_penalty, neutral.repetition_penalty),
        presence_penalty=either(given.presence_penalty, neutral.presence_penalty),
        frequency_penalty=either(given.frequency_penalty, neutral.frequency_penalty),
        logit_bias=given.logit_bias or {},
        # Any 64-bit seed is a seed, -1 too.
        seed=None if given.seed is None else given.seed % 2**64,
        logprobs=logprobs,
        stop=stop,
        stop_token_ids=tuple(given.stop_token_ids or ()),
        ignore_eos=bool(given.ignore_eos),
    )


def either(value: T | None, default: T) -> T:
    """`default` where the client left the field out."""
    return default if value is None else value
