"""One API key: what is remembered of it, and what its holder sends.

    hl_ 3f9c0a51be77 _ 64 hexadecimal digits
        its id         256 random bits, told once

Only a SHA-256 of the whole is remembered. The slow hashes that passwords need make guessing costly, and nobody guesses
256 random bits; a fast one costs a keystroke no time, and a flood of wrong keys costs us little.
"""

import hashlib
import hmac
import re
import secrets
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KeyScope = Literal["complete", "admin"]
"""`admin` may do whatever `complete` may, and see what concerns all tenants."""

_SENT = re.compile(r"hl_([0-9a-f]{12})_[0-9a-f]{64}", re.ASCII)

# What a key of unknown id is compared with, so that it takes as long to refuse.
_NOBODYS_DIGEST = "0" * 64

_Seconds = Annotated[int, Field(ge=0, lt=1 << 48)]
_Limit = Annotated[int, Field(ge=1, le=1_000_000)]


class Key(BaseModel):
    """What is remembered. Times are in seconds since 1970; `per_minute` and `at_once` None: no limit."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    name: Annotated[str, Field(max_length=100)]
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    scope: KeyScope
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    created_at: _Seconds
    expires_at: _Seconds | None = None
    revoked_at: _Seconds | None = None
    per_minute: _Limit | None = None
    at_once: _Limit | None = None

    def state(self, now: float) -> Literal["valid", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def new_key(
    now: float,
    *,
    name: str = "",
    tenant: str | None = None,
    scope: KeyScope = "complete",
    valid_s: int | None = None,
    per_minute: int | None = None,
    at_once: int | None = None,
) -> tuple[Key, str]:
    """A key and what its holder has to send, which can never be told again. `tenant` None: one of its own.

    Raises ValueError (pydantic's) for what a key cannot be.
    """
    key_id = secrets.token_hex(6)
    sent = f"hl_{key_id}_{secrets.token_hex(32)}"
    key = Key(
        id=key_id,
        name=name,
        tenant=f"key-{key_id}" if tenant is None else tenant,
        scope=scope,
        digest=_digest(sent),
        created_at=int(now),
        expires_at=None if valid_s is None else int(now) + valid_s,
        per_minute=per_minute,
        at_once=at_once,
    )
    return key, sent


def id_of(sent: str) -> str | None:
    """Which key it claims to be; None where it is none of ours."""
    found = _SENT.fullmatch(sent)
    return None if found is None else found[1]


def is_it(sent: str, key: Key | None) -> bool:
    """Whether `sent` is that key; takes the same time whatever is wrong with it, None among it."""
    same = hmac.compare_digest(_digest(sent), _NOBODYS_DIGEST if key is None else key.digest)
    return same and key is not None


def _digest(sent: str) -> str:
    return hashlib.sha256(sent.encode()).hexdigest()
