"""How often rules cut too early is counted on true answers, and is next to never."""

import random
import sysconfig
from pathlib import Path

from halfline.quality.cuts import KINDS, Hole, holes, judge, judge_files, source_files, tally
from halfline.request import Document

_CODE = """\
def first(items):
    if not items:
        return None
    return items[0]


def last(items):
    return items[-1]
"""


def test_a_hole_and_what_is_around_it_make_the_file() -> None:
    found = list(holes(_CODE, "x.py", 8, random.Random(0)))
    assert {hole.kind for hole in found} == set(KINDS)
    for hole in found:
        assert 0 < hole.length <= len(hole.answer)
        if hole.kind != "open":
            whole = hole.document.prefix + hole.answer[: hole.length] + hole.document.suffix
            assert whole == _CODE


def test_an_answer_ends_early_right_or_late() -> None:
    def end(prefix: str, suffix: str, answer: str, length: int) -> str:
        return judge(Hole("line", Document(prefix, suffix, "x.py"), answer, length)).end

    assert end("def f(", "):\n", "a, b):\n    return a\n", len("a, b")) == "right"
    assert end("def f(", "):\n", "a, b):\n    return a\n", len("a, b):\n    return a")) == "early"
    assert end("x = ", "", "f(\n    1\n)\n", len("f(")) == "late"


def test_of_true_answers_hardly_any_is_cut_early() -> None:
    """A part of Python's library; docs/postprocessing.md has other languages and more holes."""
    library = Path(sysconfig.get_path("stdlib"))
    folders = [library / name for name in ("asyncio", "email", "json")]
    judged = judge_files(source_files(folders, 12, seed=3), 4, seed=3)
    row = tally(judged)
    assert row.num_answers > 100
    assert row.early <= 0.005, row.early_by_rule
    assert row.rewritten == 0.0
    blocks = tally([each for each in judged if each.kind == "block"])
    assert blocks.right > 0.9
    spans = tally([each for each in judged if each.kind == "span"])
    assert spans.right > 0.9
