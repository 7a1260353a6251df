"""The fields by which OpenAI's dialects, and servers that extend them, say how tokens are chosen."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.options import ApiOptions
from halfline.errors import BadRequest
from halfline.request import SamplingParams, Schedule
from halfline.sampling.profiles import Profile

T = TypeVar("T")

MAX_IDS = 4096  # in `stop_token_ids` and `logit_bias`

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]

_SAMPLERS = {"k": "top_k", "p": "top_p", "m": "min_p", "e": "penalties"}  # that we have, by their letters

STOP_SHAPE = "it must be a text or a list of at most 64 texts"


class ScheduleField(BaseModel):
    """See `Schedule`. What is left out has its default."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    by: Literal["step", "entropy"] | None = None
    base_temp: float | None = None
    min_temp: float | None = None
    k_min: int | None = None
    k_max: int | None = None
    decay_rate: float | None = None


class SamplingFields(BaseModel):
    """Null always means "left out"."""

    stop: str | Annotated[list[str], Field(max_length=64, fail_fast=True)] | None = None
    stop_token_ids: Annotated[list[Count], Field(max_length=MAX_IDS, fail_fast=True)] | None = None
    ignore_eos: bool | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    profile: str | None = Field(
        None, max_length=256, description="Where the fields come from that are left out."
    )
    do_sample: bool | None = Field(None, description="False: the likeliest token, whatever the temperature.")
    schedule: ScheduleField | None = Field(
        None, description="Temperature and `top_k` that change from token to token."
    )
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
    samplers: str | Annotated[list[str], Field(max_length=64, fail_fast=True)] | None = Field(
        None, description="llama-server's: filters and penalties that are not named are off."
    )


def sampling_params(given: SamplingFields, options: ApiOptions, logprobs: int | None) -> SamplingParams:
    """`logprobs` as in SamplingParams. Raises BadRequest for a value out of its range."""
    neutral, profile = SamplingParams(), options.find_profile(given.profile)
    schedule = _schedule(given, profile)
    stop = (given.stop,) if isinstance(given.stop, str) else tuple(given.stop or ())
    params = SamplingParams(
        temperature=temperature(profile, given.temperature, given.do_sample),
        top_k=max(0, either(given.top_k, profile.top_k)),
        top_p=either(given.top_p, profile.top_p),
        min_p=either(given.min_p, profile.min_p),
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
        schedule=schedule,
    )
    return only_named(params, given.samplers)


def only_named(params: SamplingParams, samplers: str | Sequence[str] | None) -> SamplingParams:
    """Without the filters and penalties that `samplers` does not name, by name or by one letter each ("kpm"); with all
    of them where it names none.
    """
    if not samplers:
        return params
    neutral, named = SamplingParams(), {_SAMPLERS.get(each, each) for each in samplers}
    penalties = params if "penalties" in named else neutral
    return replace(
        params,
        top_k=(params if "top_k" in named else neutral).top_k,
        top_p=(params if "top_p" in named else neutral).top_p,
        min_p=(params if "min_p" in named else neutral).min_p,
        repetition_penalty=penalties.repetition_penalty,
        presence_penalty=penalties.presence_penalty,
        frequency_penalty=penalties.frequency_penalty,
    )


def temperature(profile: Profile, given: float | None, do_sample: bool | None = None) -> float:
    """0 where nothing is drawn: by the request's own word, else by its temperature, else by the profile's."""
    samples = profile.do_sample or given is not None if do_sample is None else do_sample
    return either(given, profile.temperature) if samples else 0.0


def _schedule(given: SamplingFields, profile: Profile) -> Schedule | None:
    """The request's own, else the profile's where the request says nothing that it would overrule."""
    overruled = [name for name in ("temperature", "top_k") if getattr(given, name) is not None]
    if given.do_sample is False:
        overruled.append("do_sample")
    if given.schedule is None:
        return None if overruled else profile.schedule
    if overruled:
        raise BadRequest(f"`schedule` decides about `{overruled[0]}`; send one of them", "schedule")
    return Schedule(**given.schedule.model_dump(exclude_none=True))


def either(value: T | None, default: T) -> T:
    """`default` where the client left the field out."""
    return default if value is None else value
