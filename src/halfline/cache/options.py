"""What an operator may turn about the caches of answers."""

from dataclasses import dataclass
from typing import Literal

from pydantic import ByteSize

_MEMORY = ByteSize(64 * 2**20)
_NO_DISK = ByteSize(0)
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """No tier changes an answer: the exact one knows the whole question, the others only guess, the model checks."""

    exact: Literal["on", "off"] = "on"
    """Whether an answer is kept for whoever of the same tenant asks exactly the same again."""

    syntax: Literal["on", "off"] = "off"
    """Whether answers are guessed from code that is the same but for the names of its variables. Needs the extra
    `syntax`."""

    semantic: Literal["on", "off"] = "off"
    """Whether answers are guessed from text that means about the same. Needs the extra `semantic`."""

    min_similarity: float = 0.9
    """Cosine, up to 1, from which on text means about the same."""

    memory_bytes: ByteSize = _MEMORY
    """Memory for answers, what was used longest ago goes first."""

    disk_bytes: ByteSize = _NO_DISK
    """Disk for answers that outlive a restart, such as `256MiB`, in `cache_dir`; 0 keeps none. They contain what was
    answered, readable for their owner. Processes on one machine may share them."""

    redis_url: str | None = None
    """Where several servers share their answers, such as `redis://host:6379/0`. Left out: they do not. Needs the extra
    `redis`."""

    max_age_s: float = 7 * 86400.0
    """Seconds after which an answer is forgotten."""

    def __post_init__(self) -> None:
        if self.memory_bytes < 0:
            raise ValueError(f"memory_bytes is {self.memory_bytes}, it must not be negative")
        if self.disk_bytes < 0:
            raise ValueError(f"disk_bytes is {self.disk_bytes}, it must not be negative")
        if self.redis_url is not None and not self.redis_url.startswith(_REDIS_SCHEMES):
            raise ValueError(
                f"redis_url is {self.redis_url}, it must begin with {' or '.join(_REDIS_SCHEMES)}"
            )
        if not 0.0 < self.min_similarity <= 1.0:
            raise ValueError(f"min_similarity is {self.min_similarity}, it must be above 0 and at most 1")
        if not self.max_age_s > 0.0:
            raise ValueError(f"max_age_s is {self.max_age_s}, it must be more than 0")
