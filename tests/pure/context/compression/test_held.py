import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.compression.choice import build_chain
from halfline.context.compression.held import HeldDecisions
from halfline.context.compression.names import PASS_NAMES
from halfline.context.compression.passes import Budget, Chain, LinedPart, LineTokens, lined
from halfline.context.compression.wanted import Wanted
from halfline.request import Part

BYTES = LineTokens(lambda text: list(text.encode()))
LINES = [
    "import alpha\n",
    "# a remark\n",
    "def beta(x):\n",
    "    return alpha.gamma(x) + 1\n",
    "    value = {'key': [1, 2, 3]}\n",
    "\n",
    "delta = beta(epsilon)\n",
]


def kept(parts: tuple[LinedPart, ...]) -> list[dict[int, str]]:
    return [{line.number: line.text for line in part.lines} for part in parts]


CHAINS = {name: build_chain([name], BYTES, 256) for name in PASS_NAMES} | {"wanted": Chain([Wanted(BYTES)])}


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_over_a_replayed_trace_kept_stays_kept_and_dropped_stays_dropped(name: str, seed: int) -> None:
    """Typing here and at the end of another file, jumps, other budgets, and files that come and go."""
    rng = random.Random(seed)
    chain, held = CHAINS[name], HeldDecisions()
    files = {
        path: [rng.choice(LINES) for _ in range(rng.randrange(1, 12))] for path in ("a.py", "b.py", "c.py")
    }
    known: dict[str, tuple[int, dict[int, str]]] = {}
    for _ in range(8):
        files[rng.choice("abc") + ".py"].append(rng.choice(LINES))
        shown = rng.sample(sorted(files), rng.randrange(1, 4))
        parts = [lined(Part("".join(files[path]), path)) for path in shown]
        near, num_tokens = "".join(rng.choices(LINES, k=3)), rng.randrange(200)
        budget = Budget(num_tokens, near, room=num_tokens)
        shrunk = held.shrink(chain, parts, budget)
        for path, lines in zip(shown, kept(shrunk.parts), strict=True):
            num_before, before = known.get(path, (0, {}))
            assert {number: text for number, text in lines.items() if number < num_before} == before
            known[path] = len(files[path]), lines


def test_a_chain_alone_would_change_its_mind() -> None:
    """So that the test above tests something."""
    chain = build_chain(["prune"], BYTES, 256)
    part = lined(Part("one = first\ntwo = second\n", "a.py"))
    assert (
        chain.shrink([part], Budget(13, before="first")).parts
        != chain.shrink([part], Budget(13, before="second")).parts
    )


def test_a_moved_anchor_decides_anew() -> None:
    chain, held = build_chain(["prune"], BYTES, 256), HeldDecisions()
    part = lined(Part("one = first\ntwo = second\n", "a.py"))
    first = held.shrink(chain, [part], Budget(13, before="first"))
    assert held.shrink(chain, [part], Budget(13, before="second")) == first
    held.renew()
    assert held.shrink(chain, [part], Budget(13, before="second")) != first


def test_behind_the_first_line_that_differs_is_decided_anew() -> None:
    chain, held = build_chain(["comments"], BYTES, 256), HeldDecisions()
    held.shrink(chain, [lined(Part("a = 1\n# one\nb = 2\n", "a.py"))], Budget(0))
    now = held.shrink(chain, [lined(Part("a = 1\n# one\n# two\nb = 2\n", "a.py"))], Budget(0))
    assert now.parts[0].text == "a = 1\nb = 2\n"
    assert [each.number for each in now.dropped] == [1, 2]


def test_two_pieces_of_one_file_are_two_parts() -> None:
    chain, held = build_chain(["comments"], BYTES, 256), HeldDecisions()
    parts = [lined(Part("x\n# a\n", "a.py")), lined(Part("x\nb\n", "a.py")), lined(Part("c\n", "a.py"))]
    for _ in range(2):
        assert [part.text for part in held.shrink(chain, parts, Budget(0)).parts] == ["x\n", "x\nb\n", "c\n"]


def test_what_a_fork_learns_is_its_own() -> None:
    chain, held = build_chain(["prune"], BYTES, 256), HeldDecisions()
    part = lined(Part("one = first\ntwo = second\n", "a.py"))
    held.fork().shrink(chain, [part], Budget(13, before="first"))
    assert held.shrink(chain, [part], Budget(13, before="second")) == chain.shrink(
        [part], Budget(13, before="second")
    )


def test_of_a_huge_part_that_changes_with_every_keystroke_only_the_latest_are_remembered() -> None:
    held, chain = HeldDecisions(), Chain([])
    for number in range(20):
        held.shrink(chain, [lined(Part(f"# {number}\n" + "x" * 100_000, "a.py"))], Budget(0))
    assert sum(each.num_characters for each in held._decided.values()) <= 1 << 18
