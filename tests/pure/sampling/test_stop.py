"""Streaming in pieces shows just what cutting the whole text would leave."""

from hypothesis import given
from hypothesis import strategies as st

from halfline.sampling.stop import StopStrings


def cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """The specification: up to the first end of any stop string, without the longest that ends there."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


def streamed(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    stopping = StopStrings(stops)
    shown = ""
    for piece in pieces:
        shown += stopping.push(piece)
        if stopping.stopped:
            return shown, True
    return shown + stopping.finish(), False


few_letters = st.text("ab\n", max_size=6)


@given(st.lists(few_letters, max_size=8), st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=4))
def test_streaming_equals_cutting_the_whole_text(pieces: list[str], stops: list[str]) -> None:
    assert streamed(pieces, stops) == cut("".join(pieces), stops)


@given(
    st.lists(few_letters, max_size=8),
    st.lists(st.text("ab\n", min_size=1, max_size=5), min_size=1, max_size=4),
)
def test_nothing_shown_could_still_begin_a_stop_string(pieces: list[str], stops: list[str]) -> None:
    stopping = StopStrings(stops)
    shown = read = ""
    for piece in pieces:
        read += piece
        shown += stopping.push(piece)
        for stop in stops:
            assert cut(read + stop, stops)[0].startswith(shown)
        if stopping.stopped:
            break


def test_only_what_may_begin_a_stop_string_is_held() -> None:
    stopping = StopStrings(["\n\nclass"])
    assert stopping.push("x = 1\n") == "x = 1"
    assert stopping.push("y = 2\n\ncl") == "\ny = 2"
    assert stopping.push("ean()") == "\n\nclean()"
    assert not stopping.stopped


def test_a_stop_string_over_three_pieces_is_found() -> None:
    assert streamed(["a<|", "end", "|>b"], ["<|end|>"]) == ("a", True)
