"""Whole answers by their whole question: what was computed once is right for everybody who asks exactly that.

Kept are the tokens as they were sampled, not their text: whoever asks reads them through the filters of the request, as
the engine would have. Knows neither requests nor what a question consists of; its digest comes from above
(pipeline/question.py), the digest of what computes, the model and its kernels, goes into every key here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from halfline.cache.store import Store
from halfline.request import FinishReason
from halfline.sampling.sampler import Scored

KEPT_REASONS: tuple[FinishReason, ...] = ("stop", "length")
"""Ends that the next one who asks would come to as well."""


@dataclass(frozen=True, slots=True)
class Told:
    """One choice: all tokens that were sampled for it, and how it ended."""

    tokens: tuple[Scored, ...]
    finish_reason: FinishReason


class ExactAnswers:
    """`scope` says what computes: answers of another are never found."""

    def __init__(self, store: Store, scope: bytes) -> None:
        self._store = store
        self._scope = scope

    def address(self, question: bytes) -> bytes:
        """Where the answer to a question is kept: 32 bytes."""
        return blake2b(b"exact" + self._scope + question, digest_size=32).digest()

    def get(self, address: bytes) -> tuple[Told, ...] | None:
        """The choices, if memory has them."""
        data = self._store.get(address, "exact")
        return None if data is None else _unpacked(data)

    def holds(self, address: bytes) -> bool:
        """Whether `get` would find it."""
        return self._store.holds(address)

    def may_fetch(self, address: bytes) -> bool:
        """Whether `fetch` may bring it where `get` finds it."""
        return self._store.may_fetch(address)

    async def fetch(self, address: bytes) -> None:
        await self._store.fetch(address)

    def want(self, address: bytes) -> None:
        """Have it in memory for the next time, at nobody's cost."""
        self._store.want(address)

    def put(self, address: bytes, choices: Sequence[Told]) -> None:
        """Keep an answer, unless somebody called off a part of it."""
        if all(each.finish_reason in KEPT_REASONS for each in choices):
            self._store.put(address, _packed(choices))


def _packed(choices: Sequence[Told]) -> bytes:
    # JSON writes every float so that it reads back the same.
    rows = [
        [each.finish_reason, [[token.token_id, token.logprob, token.top] for token in each.tokens]]
        for each in choices
    ]
    return json.dumps(rows, separators=(",", ":")).encode()


def _unpacked(data: bytes) -> tuple[Told, ...]:
    """The store vouches for the bytes, the address for who wrote them."""
    return tuple(
        Told(
            tuple(
                Scored(token_id, logprob, tuple((other, each) for other, each in top))
                for token_id, logprob, top in tokens
            ),
            finish_reason,
        )
        for finish_reason, tokens in json.loads(data)
    )
