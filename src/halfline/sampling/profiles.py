"""What a request means that leaves things out: profiles of generation, two of ours and the server's own.

low-latency    up to 128 new tokens, always the likeliest
high-quality   up to 512, drawn at temperature 0.7
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from halfline.errors import BadRequest
from halfline.request import SamplingParams, Schedule

DEFAULT_PROFILE = "low-latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Without `do_sample` the likeliest token is always taken, whatever the temperature. `schedule` replaces
    `temperature` and `top_k`.
    """

    temperature: float = 0.1
    max_new_tokens: int = 128
    do_sample: bool = False
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    schedule: Schedule | None = None

    @property
    def params(self) -> SamplingParams:
        """Those of a request that says nothing."""
        return SamplingParams(
            temperature=self.temperature if self.do_sample else 0.0,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            schedule=self.schedule,
        )

    # A settings file's table may hold no other names.
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        for name, low, high in (("temperature", 0.0, 100.0), ("top_p", 0.0, 1.0), ("min_p", 0.0, 1.0)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be between {low:g} and {high:g}")
        for name in ("max_new_tokens", "top_k"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 0")
        if self.schedule is not None and not self.do_sample:
            raise ValueError("a profile with a schedule samples: do_sample must be true")


OURS: Mapping[str, Profile] = {
    DEFAULT_PROFILE: Profile(),
    "high-quality": Profile(temperature=0.7, max_new_tokens=512, do_sample=True),
}


def find_profile(name: str | None, default: str, own: Mapping[str, Profile]) -> Profile:
    """`own` ones may have the names of ours. Raises BadRequest for a name that nobody gave."""
    profiles = {**OURS, **own}
    wanted = default if name is None else name
    if wanted not in profiles:
        known = ", ".join(profiles)
        raise BadRequest(f"there is no profile {wanted[:100]!r}; this server has {known}", "profile")
    return profiles[wanted]
