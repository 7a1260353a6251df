import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.context.compression.wanted import MARKER_TOKENS, Wanted
from halfline.request import Part

BYTES = LineTokens(lambda text: list(text.encode()))


def filler(count: int, first: int = 0) -> str:
    return "".join(f"@{number:02}\n" for number in range(first, first + count))


def kept(texts: list[str], room: int, before: str, behind: str = "") -> list[list[int]]:
    parts = [lined(Part(text, f"{number}.py")) for number, text in enumerate(texts)]
    shrunk = Wanted(BYTES).shrink(parts, Budget(0, before, behind, room=room))
    return [[line.number for line in part.lines] for part in shrunk.parts]


def test_what_fits_with_its_paths_is_left_alone_and_one_token_less_is_not() -> None:
    room = 3 * 4 + MARKER_TOKENS + len("0.py\n")
    assert kept([filler(3)], room, "") == [[0, 1, 2]]
    assert kept([filler(3)], room - 1, "") == [[1, 2]]


@pytest.mark.parametrize(
    ("path", "definition"),
    [
        ("0.py", "def total(items):\n    return sum(items)\n"),
        ("0.py", "class Basket:\n    def total(self):\n        return 1\n"),
        ("0.rs", "pub fn total(a: u8) -> u8 {\n    a\n}\n"),
        ("0.go", "func (b *Basket) total() int {\n\treturn 1\n}\n"),
        ("0.ts", "export function total(a: number) {\n  return a\n}\n"),
    ],
)
def test_a_definition_stays_that_the_document_uses_even_far_from_the_cursor(
    path: str, definition: str
) -> None:
    part = lined(Part(filler(40) + definition + filler(40, 40), path))
    length = definition.count("\n")
    for before, behind in (("import total\n" + filler(90), ""), ("", "x = total()\n")):
        budget = Budget(0, before, behind, room=len(definition) + MARKER_TOKENS + len(path) + 1)
        shrunk = Wanted(BYTES).shrink([part], budget)
        assert {40, 40 + length // 2} & {line.number for line in shrunk.parts[0].lines}, (before, behind)
    other = Wanted(BYTES).shrink([part], Budget(0, "~", room=len(definition)))
    assert 40 not in [line.number for line in other.parts[0].lines]


def test_of_several_files_the_one_with_the_definition_stays_and_the_others_paths_cost_nothing() -> None:
    definition = "def total(a):\n    return a\n"
    texts = [filler(20), filler(20) + definition, filler(20)]
    room = len(definition) + MARKER_TOKENS + len("1.py\n")
    assert kept(texts, room, "total") == [[], [20, 21], []]


@pytest.mark.parametrize("path", ["0.py", "0.unknown"])
def test_lines_end_where_grammars_and_editors_say_and_not_at_form_feeds(path: str) -> None:
    definition = "def total(a):\n    return a\n"
    text = "@\f@\x1c@\u2028@\r@\n" * 8 + definition + filler(20)
    shrunk = Wanted(BYTES).shrink(
        [lined(Part(text, path))], Budget(0, "total\n" + "~" * 5000, room=MARKER_TOKENS + 45)
    )
    assert definition in shrunk.parts[0].text


def test_behind_definitions_what_has_most_in_common_with_the_text_at_the_cursor_stays() -> None:
    text = filler(30) + "basket.add(price)\n" + filler(30, 30)
    (stays,) = kept([text], 60, "x = basket.add(")
    assert 30 in stays and stays == list(range(stays[0], stays[-1] + 1))


@pytest.mark.parametrize("text", ["", "\n", "\f\n\x1c\n", "def \n", "class", "def f(:\n" * 3, "\ud800\n"])
def test_strange_text_does_no_harm(text: str) -> None:
    tokens = LineTokens(lambda line: list(line.encode(errors="surrogatepass")))
    shrunk = Wanted(tokens).shrink([lined(Part(text, None))], Budget(0, text, text, room=0))
    assert shrunk.parts[0].lines == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["def alpha(beta):\n", "    gamma = 1\n", "\n", "alpha()\n"]), max_size=25),
        max_size=4,
    ),
    st.integers(0, 300),
    st.sampled_from(["", "alpha", "gamma = 1\n\n"]),
)
def test_the_room_is_met_and_no_line_more_goes_than_it_takes(
    texts: list[list[str]], room: int, before: str
) -> None:
    parts = [lined(Part("".join(lines), "a.py")) for lines in texts]
    head = MARKER_TOKENS + len("a.py\n")
    left = Wanted(BYTES).shrink(parts, Budget(0, before, room=room)).parts
    cost = BYTES.count(left) + sum(head for part in left if part.lines)
    longest = head + max((len(line) for lines in texts for line in lines), default=0)
    assert cost <= room or not any(part.lines for part in left)
    assert left == tuple(parts) or cost > room - longest
