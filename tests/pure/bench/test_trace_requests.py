"""Requests have the lengths that a recorded session gives them."""

import gzip
import json
from pathlib import Path

import pytest

from halfline.bench.allocation import Request
from halfline.bench.trace_requests import trace_requests


def session(directory: Path, text: str) -> Path:
    """Typed from the beginning, character by character."""
    file = directory / "typed.json.gz"
    transactions = [{"patches": [[place, 0, character]]} for place, character in enumerate(text)]
    file.write_bytes(gzip.compress(json.dumps({"startContent": "", "txns": transactions}).encode()))
    return file


def test_a_prompt_is_what_stands_before_the_cursor_and_an_answer_the_rest_of_the_typed_line(
    tmp_path: Path,
) -> None:
    file = session(tmp_path, "x" * 99 + "\n" + "y" * 2999 + "\nabc\nd")
    assert trace_requests(file, 1, len, max_prompt=10_000, max_answer=64) == [Request(3001, 64)]
    longer = session(tmp_path, "x" * 2999 + "\n" + "ab\nc" * 10)
    requests = trace_requests(longer, 4, len, max_prompt=3005, max_answer=64)
    assert [each.prompt for each in requests] == [3001, 3005, 3005, 3005]
    assert [each.answer for each in requests] == [1, 1, 2, 1], "b, nothing, ab, nothing; at least one token"


def test_a_session_that_is_too_short_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 100 transactions"):
        trace_requests(session(tmp_path, "x" * 100), 4, len, max_prompt=10, max_answer=10)
