import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.context.compression.relatedness import Related
from halfline.request import Part

BYTES = LineTokens(lambda text: list(text.encode()))


def filler(count: int) -> str:
    return "".join(f"@{number:02}\n" for number in range(count))


def kept(text: str, num_tokens: int, before: str) -> list[int]:
    (part,) = Related(BYTES).shrink([lined(Part(text, "a.py"))], Budget(num_tokens, before)).parts
    return [line.number for line in part.lines]


def test_what_continues_the_text_at_the_cursor_stays_with_its_neighbours() -> None:
    text = filler(30) + "basket.total(price)\n" + filler(30)
    stays = kept(text, 60, "x = basket.total(")
    assert 30 in stays
    assert stays == list(range(stays[0], stays[-1] + 1)), "in one stretch"
    assert stays[0] > 10 and stays[-1] < 50


def test_a_longer_sequence_in_common_is_worth_more_than_the_same_tokens_apart() -> None:
    text = "etaoin\n" + filler(40) + "eniato\n"
    assert 0 in kept(text, 40, "etaoin")
    assert 41 in kept(text, 40, "eniato")


def test_what_fits_is_left_alone() -> None:
    text = filler(3)
    assert kept(text, 12, "") == [0, 1, 2]


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n"])
def test_empty_parts_and_lines_do_no_harm(text: str) -> None:
    assert kept(text, 0, "x") == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["alpha(beta)\n", "gamma = 1\n", "\n", "delta\n"]), max_size=25), max_size=4
    ),
    st.integers(0, 300),
    st.text(max_size=40),
)
def test_the_budget_is_met_and_no_line_more_goes_than_it_takes(
    texts: list[list[str]], num_tokens: int, before: str
) -> None:
    parts = [lined(Part("".join(lines))) for lines in texts]
    left = BYTES.count(Related(BYTES).shrink(parts, Budget(num_tokens, before)).parts)
    longest = max((len(line) for lines in texts for line in lines), default=0)
    assert left <= num_tokens
    assert left == BYTES.count(parts) or left > num_tokens - longest
