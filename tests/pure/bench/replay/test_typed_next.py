"""What the user typed next is what stands there when he leaves, and answers are measured against it."""

from halfline.bench.replay.trace import Edit
from halfline.bench.replay.typed_next import Worth, typed_next, worth


def test_what_is_typed_at_the_cursor_adds_up() -> None:
    assert typed_next(10, [(Edit(10, 0, "a"),), (Edit(11, 0, "b"),), (Edit(10, 0, "_"),)]) == "_ab"


def test_a_mistake_put_right_does_not_count() -> None:
    assert typed_next(10, [(Edit(10, 0, "ax"),), (Edit(11, 1, ""),), (Edit(11, 0, "b"),)]) == "ab"


def test_what_is_typed_elsewhere_ends_it() -> None:
    for elsewhere in (Edit(9, 1, ""), Edit(12, 0, "y"), Edit(11, 1, "")):
        assert typed_next(10, [(Edit(10, 0, "a"),), (elsewhere,), (Edit(11, 0, "b"),)]) == "a"


def test_it_ends_two_lines_on() -> None:
    assert typed_next(0, [(Edit(i, 0, "\n"),) for i in range(10)]) == "\n\n\n"


def test_an_answer_is_worth_its_first_line() -> None:
    assert worth("x = 1;", "x = 1;  \nnext") == Worth(exact=True, common_prefix=6, kept=6, shown=6)
    assert worth("x = 12", "x = 1;") == Worth(exact=False, common_prefix=5, kept=5, shown=6)
    assert worth("", "x") == Worth(exact=False, common_prefix=0, kept=0, shown=0)
    assert worth("ab", "b") == Worth(exact=False, common_prefix=0, kept=1, shown=2)
