import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.context.compression.relatedness import InCommon, Related
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


WRITTEN = "".join(f"basket.add(item_{number}, price[{number}])\n" for number in range(30))
ITS_LIKE = "".join(f"basket.add(fruit_{number}, price[{number}])\n" for number in range(60, 90))
STRANGE = "".join(f"~{chr(300 + number)}^{chr(400 + number)}\n" for number in range(60))


def left_in_common(*texts: str, before: str = WRITTEN, path: str | None = "main.py") -> list[str]:
    parts = [lined(Part(text, f"{number}.py")) for number, text in enumerate(texts)]
    shrunk = InCommon(BYTES).shrink(parts, Budget(0, before, path=path))
    assert len(shrunk.dropped) == sum(len(part.lines) for part in parts) - sum(
        len(part.lines) for part in shrunk.parts
    )
    return [part.text for part in shrunk.parts]


def test_of_a_related_context_nothing_goes_and_of_an_unrelated_one_everything() -> None:
    assert left_in_common(ITS_LIKE, STRANGE) == [ITS_LIKE, ""]


def test_what_goes_goes_in_stretches() -> None:
    (left,) = left_in_common(STRANGE + ITS_LIKE + STRANGE)
    assert ITS_LIKE in left and left in STRANGE + ITS_LIKE + STRANGE
    assert len(left) < len(ITS_LIKE) + len(STRANGE) // 2, "and a few neighbours"


def test_the_document_s_own_text_stays() -> None:
    assert left_in_common(STRANGE, path="0.py") == [STRANGE]
    assert left_in_common(STRANGE, path=None) == [""], (
        "a document without a name has no text of its own elsewhere"
    )


def test_nothing_goes_where_hardly_anything_has_been_written() -> None:
    assert left_in_common(STRANGE, before=WRITTEN[-500:]) == [STRANGE]
    assert left_in_common(STRANGE, before=WRITTEN[-600:]) == [""]


def test_text_far_from_the_cursor_is_not_looked_at() -> None:
    seen: list[str] = []
    tokens = LineTokens(lambda text: seen.append(text) or list(text.encode()))  # type: ignore[func-returns-value]
    InCommon(tokens).shrink([lined(Part(STRANGE))], Budget(0, WRITTEN * 1000))
    assert sum(map(len, seen)) <= 1024 + len(STRANGE)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text(max_size=200) | st.sampled_from([ITS_LIKE, STRANGE, "\n\n\n", "a" * 3000]), max_size=4),
    st.text(max_size=100) | st.just(WRITTEN),
)
def test_what_stays_of_a_part_does_not_depend_on_the_others(texts: list[str], before: str) -> None:
    before = f"{WRITTEN}{before}"
    assert left_in_common(*texts, before=before) == [
        left for text in texts for left in left_in_common(text, before=before)
    ]
