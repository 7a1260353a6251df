import itertools

import pytest

from halfline.context.compression.choice import build_chain
from halfline.context.compression.controls import Nothing
from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.request import Part

BYTES = LineTokens(lambda text: list(text.encode()))
PARTS = [lined(Part("".join(f"line {n:02}\n" for n in range(start, start + 20)))) for start in (0, 20)]


@pytest.mark.parametrize("name", ["tail", "uniform", "random"])
def test_a_control_fills_its_budget_and_no_more(name: str) -> None:
    left = build_chain([name], BYTES, 256).shrink(PARTS, Budget(160)).parts
    assert BYTES.count(left) == 160


def test_the_tail_is_what_stands_nearest_to_the_document() -> None:
    first, second = build_chain(["tail"], BYTES, 256).shrink(PARTS, Budget(80)).parts
    assert first.lines == ()
    assert second.text == "".join(f"line {n}\n" for n in range(30, 40))


def test_evenly_is_evenly() -> None:
    parts = build_chain(["uniform"], BYTES, 256).shrink(PARTS, Budget(160)).parts
    numbers = sorted(line.number + 20 * place for place, part in enumerate(parts) for line in part.lines)
    assert max(after - before for before, after in itertools.pairwise(numbers)) <= 3


def test_nothing_leaves_everything() -> None:
    shrunk = Nothing().shrink(PARTS, Budget(0))
    assert list(shrunk.parts) == PARTS and shrunk.dropped == ()


def test_a_chain_is_one_pass_after_the_other_and_tells_every_reason() -> None:
    part = lined(Part("# remark\ndef f():\n    return 1\n", "a.py"))
    shrunk = build_chain(["comments", "bodies"], BYTES, 256).shrink([part], Budget(0))
    assert shrunk.parts[0].text == "def f():\n    ...\n"
    assert [(each.number, each.reason) for each in shrunk.dropped] == [(0, "comment"), (2, "body")]
