"""Whose late work a request ends."""

import pytest

from halfline.pipeline.late_work import LateWork, cursor_of
from halfline.request import CompletionRequest, Document, Identity, SamplingParams


class Work:
    """Goes on until it is cancelled."""

    ended = False
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def request(prompt: str | Document, identity: Identity | None = None) -> CompletionRequest:
    return CompletionRequest(
        id="r", prompt=prompt, params=SamplingParams(), max_tokens=4, user="ann", identity=identity
    )


@pytest.mark.parametrize("prompt", ["a raw prompt", "another", Document("x", ""), Document("x", "", "a.py")])
def test_the_late_work_of_a_raw_prompt_is_ended_by_nobody(prompt: str | Document) -> None:
    late, work = LateWork(), Work()
    late.begin(cursor_of(request("a raw prompt")), lambda: work)
    late.end(cursor_of(request(prompt)))
    late.begin(cursor_of(request(prompt)), Work)
    assert not work.cancelled


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        (request(Document("xy", "", "a.py")), True),
        (request(Document("xy", "", "b.py"), Identity("local", "ann", "a.py")), True),
        (request(Document("xy", "", "b.py")), False),
        (request("a raw prompt"), False),
    ],
)
def test_the_late_work_of_a_document_is_ended_by_the_same_cursor_alone(
    asked: CompletionRequest, ends: bool
) -> None:
    late, work = LateWork(), Work()
    late.begin(cursor_of(request(Document("x", "", "a.py"))), lambda: work)
    late.end(cursor_of(asked))
    assert work.cancelled == ends


def test_a_cursor_has_one_piece_of_late_work() -> None:
    late, older, newer = LateWork(), Work(), Work()
    cursor = cursor_of(request(Document("x", "", "a.py")))
    late.begin(cursor, lambda: older)
    late.begin(cursor, lambda: newer)
    assert (older.cancelled, newer.cancelled) == (True, False)
    late.end(cursor)
    assert newer.cancelled
