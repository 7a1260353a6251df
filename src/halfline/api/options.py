"""What the HTTP server accepts, and what it assumes when a client leaves a field out."""

from dataclasses import dataclass

_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """Limits that protect the server, and defaults of the request fields."""

    max_body_bytes: int = 8 * 1024 * 1024
    """Largest request body in bytes; a larger one is answered with 413 before it is read."""

    body_timeout_s: float = 30.0
    """Seconds in which a request's body has to come; a slower one is answered with 408."""

    max_choices: int = 128
    """Most choices one request may ask for: prompts times `n` (or `best_of`)."""

    default_max_tokens: int = 16
    """New tokens for a raw prompt whose request says no `max_tokens`."""

    editor_max_tokens: int = 64
    """New tokens for a document with a cursor whose request says no `max_tokens`."""

    chat_max_tokens: int = 1024
    """New tokens for a chat whose request says no `max_tokens`; as many as there is room for, where that is less."""

    default_temperature: float = 0.0
    """Temperature of requests that say none. OpenAI's own default is 1.0; code is better served greedily."""

    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call this server, such as `https://ide.example.com`; none by default."""

    grace_s: float = 5.0
    """Seconds that running requests may still take when the server is told to stop, at most a day."""

    def __post_init__(self) -> None:
        for name in ("max_body_bytes", "max_choices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 1")
        for name in ("default_max_tokens", "editor_max_tokens", "chat_max_tokens", "grace_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 0")
        if not self.body_timeout_s > 0.0:
            raise ValueError(f"body_timeout_s is {self.body_timeout_s}, it must be more than 0")
        if self.grace_s > _DAY_S:
            raise ValueError(f"grace_s is {self.grace_s}, it must be at most {_DAY_S}")
        if not 0.0 <= self.default_temperature <= 100.0:
            raise ValueError(
                f"default_temperature is {self.default_temperature}, it must be between 0 and 100"
            )
