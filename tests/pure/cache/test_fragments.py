"""An address holds what was replied, for as long as it may be served."""

import asyncio

from halfline.cache.fragments import Fragment, Fragments
from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.request import Choice, FinishReason


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def fragments(clock: Clock, max_bytes: int = 1 << 20, scope: bytes = b"model") -> Fragments:
    return Fragments(Store(MemoryTier(max_bytes, 100.0), clock=clock), scope, 100.0)


def said(text: str, reason: FinishReason = "stop") -> tuple[Choice, ...]:
    return (Choice(0, text, (1,), reason),)


def found(kept: Fragments, address: str | None) -> Fragment | None:
    assert address is not None
    return asyncio.run(kept.get("local", address))


def test_a_fragment_that_became_too_old_is_kept_anew() -> None:
    clock = Clock()
    kept = fragments(clock)
    address = kept.put("local", b"question", said("abc"))
    clock.now = 1090.0
    assert kept.put("local", b"question", said("abc")) == address
    first = found(kept, address)
    assert first is not None and first.max_age_s == 10.0
    clock.now = 1101.0
    assert kept.put("local", b"question", said("abc")) == address
    again = found(kept, address)
    assert again is not None and (again.etag, again.max_age_s) == (first.etag, 100.0)


def test_another_answer_to_the_same_question_leaves_the_first_where_it_was_replied() -> None:
    kept = fragments(Clock())
    first, other = (kept.put("local", b"question", said(text)) for text in ("abc", "abd"))
    assert first != other
    before, behind = found(kept, first), found(kept, other)
    assert before is not None and b'"text":"abc"' in before.body
    assert behind is not None and b'"text":"abd"' in behind.body


def test_what_is_not_kept_has_no_address() -> None:
    kept = fragments(Clock())
    for reason in ("deadline", "superseded", "cancelled", "shed", "failed"):
        assert kept.put("local", b"question", (*said("abc"), Choice(1, "a", (1,), reason))) is None
    assert fragments(Clock(), max_bytes=1000).put("local", b"question", said("x" * 1000)) is None


def test_what_another_model_left_is_not_found() -> None:
    store = Store(MemoryTier(1 << 20, 100.0))
    one, other = Fragments(store, b"one", 100.0), Fragments(store, b"other", 100.0)
    address = one.put("local", b"question", said("abc"))
    assert found(one, address) is not None
    assert found(other, address) is None
