"""Tokens are shown with their text, neither before it nor after a cut."""

from hypothesis import given
from hypothesis import strategies as st

from halfline.sampling.reader import Piece, Reader
from halfline.sampling.sampler import Scored
from halfline.sampling.stop import StopStrings


class Words:
    """Token n is the n-th word; 99 is half a character that only the next token completes."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._half = ""

    def push(self, token_id: int) -> str:
        if token_id == 99:
            self._half = "é"
            return ""
        text, self._half = self._half + self._words[token_id], ""
        return text

    def finish(self) -> str:
        return "\ufffd" if self._half else ""


def read(words: list[str], token_ids: list[int], stops: list[str]) -> tuple[str, list[int], bool]:
    reader = Reader(Words(words), [StopStrings(stops)])
    total = Piece()
    for token_id in token_ids:
        total += reader.push(Scored(token_id))
        if reader.stopped:
            break
    else:
        total += reader.finish()
    return total.text, [token.token_id for token in total.tokens], reader.stopped


def test_the_token_that_a_cut_runs_through_is_shown_and_none_behind_it() -> None:
    assert read(["a", "b\n", "\n", "c"], [0, 1, 2, 3], ["\n\n"]) == ("ab", [0, 1], True)
    assert read(["a", "b", "\n\n"], [0, 1, 2], ["\n\n"]) == ("ab", [0, 1], True)


def test_everything_held_is_shown_at_the_end() -> None:
    assert read(["a", "\n"], [0, 1], ["\n\n"]) == ("a\n", [0, 1], False)


def test_a_character_that_never_became_whole_comes_at_the_end() -> None:
    assert read(["a"], [0, 99], ["x"]) == ("a\ufffd", [0, 99], False)


def test_the_end_of_the_text_can_complete_a_stop_string() -> None:
    assert read(["a"], [0, 99], ["\ufffd"]) == ("a", [0, 99], True)


@given(
    st.lists(st.text("ab", max_size=4), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=10),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=2),
)
def test_the_shown_tokens_are_a_prefix_that_covers_the_shown_text(
    words: list[str], picks: list[int], stops: list[str]
) -> None:
    token_ids = [pick % len(words) for pick in picks]
    text, shown, stopped = read(words, token_ids, stops)
    assert shown == token_ids[: len(shown)]
    covered = "".join(words[token_id] for token_id in shown)
    assert covered.startswith(text)
    if not stopped:
        assert (shown, covered) == (token_ids, text)
    elif shown:
        assert len("".join(words[token_id] for token_id in shown[:-1])) <= len(text)
