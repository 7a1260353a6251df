"""Every side gets the same keystrokes in the same order, in turns, and nobody runs out of turn."""

from collections.abc import Callable

import pytest

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.dialects import Answer, Dialect
from halfline.bench.replay.equality import Difference, differences
from halfline.bench.replay.run import BLOCK_KEYSTROKES, Counted, run_replay
from halfline.bench.replay.side import Side, counted_tokens
from halfline.bench.replay.trace import Edit, Trace
from halfline.bench.replay.typist import Pace
from halfline.bench.replay.wire import Connection

_TRACE = Trace("a.rs", "", [(Edit(i, 0, "x"),) for i in range(60)])
_LINES = Trace("b.rs", "\n" * 256, [(Edit(256 + i, 0, "y"),) for i in range(3)])


class _Process:
    """Writes down when it ran, and computes for a second each time it is looked at."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self._name = name
        self._diary = diary
        self._seconds = 0.0

    def freeze(self) -> None:
        self._diary.append(f"-{self._name}")

    def thaw(self) -> None:
        self._diary.append(f"+{self._name}")

    def cpu_seconds(self) -> float:
        self._seconds += 1.0
        return self._seconds


class _Echo:
    """Answers with the last `length` characters before the cursor, which were its prompt."""

    def __init__(self, length: int) -> None:
        self._length = length

    def ask(self, connection: Connection, keystroke: Keystroke, within_s: float | None) -> Answer:
        text = keystroke.prefix[-self._length :]
        return Answer(text=text, ms=1.0, first_ms=1.0, reused_tokens=0, prompt=text)

    def explained(self, connection: Connection, keystroke: Keystroke, answer: Answer) -> Answer:
        return answer


class _SideWithoutMetrics(Side):
    def total_tokens(self) -> int | None:
        return None


def _side(name: str, diary: list[str], length: int, *, follows: str | None = None) -> Side:
    def dialect(place: int) -> Dialect:
        return _Echo(length)

    return _SideWithoutMetrics(name, _Process(name, diary), ("127.0.0.1", 1), dialect, follows=follows)


def test_sides_take_turns_block_by_block_and_only_one_runs() -> None:
    diary: list[str] = []
    sides = [_side("a", diary, 5), _side("b", diary, 5)]
    replayed = run_replay([_TRACE.stretch(0, 60)], sides, Pace(None), 1, lambda text: text.encode())
    assert diary == ["+a", "-a", "+b", "-b", "+b", "-b", "+a", "-a", "+a", "-a", "+b", "-b"]
    assert [asked.block for asked in replayed.asked] == [i // BLOCK_KEYSTROKES for i in range(60)]
    assert [answer.text for answer in replayed.outcomes[1].answers[:6]] == [
        "x" * min(i, 5) for i in range(1, 7)
    ]
    assert [outcome.cpu_s for outcome in replayed.outcomes] == [3.0, 3.0]
    assert list(differences(replayed)) == []


def test_a_side_that_follows_is_given_the_others_prompts() -> None:
    sides = [_side("ours", [], 3), _side("theirs", [], 9, follows="ours")]
    replayed = run_replay([_TRACE.stretch(0, 10)], sides, Pace(None), 1, lambda text: text.encode())
    assert [answer.text for answer in replayed.outcomes[1].answers] == ["x", "xx", *["xxx"] * 8]


def test_what_differs_is_found_with_both_texts() -> None:
    sides = [_side("on", [], 3), _side("off", [], 4)]
    replayed = run_replay([_TRACE.stretch(0, 5)], sides, Pace(None), 1, lambda text: text.encode())
    assert list(differences(replayed)) == [
        Difference("a.rs", 3, {"on": "xxx", "off": "xxxx"}),
        Difference("a.rs", 4, {"on": "xxx", "off": "xxxx"}),
    ]


def test_keystrokes_say_where_they_are_and_what_is_typed_next() -> None:
    advanced: list[int] = []
    replayed = run_replay(
        [_TRACE.stretch(57, 9), _LINES.stretch(0, 9)],
        [_side("a", [], 2)],
        Pace(None),
        2,
        _characters,
        advanced.append,
    )
    assert [(each.path, each.is_long, each.is_first, each.typed) for each in replayed.asked] == [
        ("a.rs", False, True, "xx"),
        ("a.rs", False, False, "x"),
        ("a.rs", False, False, ""),
        ("b.rs", True, True, "yy"),
        ("b.rs", True, False, "y"),
        ("b.rs", True, False, ""),
    ]
    assert replayed.outcomes[0].counted == [Counted(2, unknown) for unknown in (2, 1, 1, 2, 2, 1)]
    assert advanced == [6]


_characters: Callable[[str], bytes] = str.encode


def test_counters_of_either_server_are_added_up() -> None:
    ours = 'halfline_run_tokens_total 12.0\nhalfline_tokens_total{kind="generated"} 5.0\n'
    theirs = "# HELP x y\nllamacpp:prompt_tokens_total 7\nllamacpp:tokens_predicted_total 1.5e+01\n"
    assert (counted_tokens(ours), counted_tokens(theirs), counted_tokens("other 1\n")) == (12, 22, None)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_what_was_played_before_an_interrupt_is_not_lost(interruption: type[BaseException]) -> None:
    sides = [_side("a", [], 5), _side("b", [], 5)]

    def interrupt(num_keystrokes: int) -> None:
        raise interruption

    replayed = run_replay([_TRACE.stretch(0, 60)], sides, Pace(None), 1, str.encode, interrupt)
    assert len(replayed.asked) == BLOCK_KEYSTROKES
    assert [len(outcome.answers) for outcome in replayed.outcomes] == [BLOCK_KEYSTROKES] * 2


def test_places_share_the_time_evenly() -> None:
    shares: list[float] = []

    def late(share: float) -> bool:
        shares.append(share)
        return shares.count(share) == 2  # there is time for one block of each place

    stretches = [_TRACE.stretch(0, 60), _TRACE.stretch(1, 59)]
    replayed = run_replay(stretches, [_side("a", [], 5)], Pace(None), 1, str.encode, late=late)
    assert shares == [0.5, 0.5, 1.0, 1.0]
    assert [asked.place for asked in replayed.asked] == [0] * BLOCK_KEYSTROKES + [1] * BLOCK_KEYSTROKES
