"""Which documents may come next."""

from typing import Any

import pytest

from halfline.pipeline.foresight import Alternative
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.warmup.next_keystrokes import next_requests


def prefixes(document: Document, answer: str, *alternatives: tuple[str, float], **changes: Any) -> list[str]:
    request = CompletionRequest(id="r", prompt=document, params=SamplingParams(), max_tokens=24)
    found = [Alternative(text, chance) for text, chance in alternatives]
    return [
        each.prompt.prefix
        for each in next_requests(request, document, answer, found, at_limit=False)
        if isinstance(each.prompt, Document)
    ]


def test_alternatives_that_begin_alike_count_together_and_the_unlikely_not_at_all() -> None:
    found = prefixes(
        Document("a", "b"), "cd", ("xy", 0.3), ("c", 0.2), ("cd", 0.15), ("🎉", 0.1), ("q", 0.01)
    )
    assert found[:3] == ["ac", "ax", "a🎉"]
    assert "aq" not in found


def test_at_the_end_of_a_line_that_is_done_enter_comes_first() -> None:
    assert prefixes(Document("a()", "\nb"), "", ("\n", 0.9), (".", 0.1)) == ["a()\n", "a().", "a("]
    assert prefixes(Document("a(", ")"), "", ("x", 0.1))[0] == "a(x"


@pytest.mark.parametrize(
    ("line", "indent"),
    [
        ("x", ""),
        ("    x", "    "),
        ("    if x:", "        "),
        ("\tif (x) {", "\t\t"),
        ("fn f() {  ", "    "),
        ("", ""),
    ],
)
def test_enter_indents_as_editors_do(line: str, indent: str) -> None:
    assert f"{line}\n{indent}" in prefixes(Document(line, ""), "y")


def test_an_answer_is_accepted_line_by_line_or_as_a_whole() -> None:
    found = prefixes(Document("a = ", ""), "b\nc")
    assert found == ["a = \n", "a = b", "a = b\nc", "a ="]
    assert prefixes(Document("", ""), "b\n") == ["\n", "b", "b\n"]
