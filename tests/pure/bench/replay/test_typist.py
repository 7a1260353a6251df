"""A typist who waits for nobody gives up what is late; one who waits gets everything."""

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.dialects import Answer
from halfline.bench.replay.typist import Pace, Typist
from halfline.bench.replay.wire import Connection


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class _Slow:
    """Takes `took_s` seconds per answer, and as long as it may when that is less."""

    def __init__(self, clock: _Clock, took_s: list[float]) -> None:
        self._clock = clock
        self._took_s = iter(took_s)
        self.asked_at: list[float] = []

    def ask(self, connection: Connection, keystroke: Keystroke, within_s: float | None) -> Answer:
        self.asked_at.append(round(self._clock.now, 6))
        took = next(self._took_s)
        late = within_s is not None and took > within_s
        self._clock.now += within_s if late and within_s is not None else took
        return Answer(text="", ms=None if late else took * 1e3, first_ms=None)

    def explained(self, connection: Connection, keystroke: Keystroke, answer: Answer) -> Answer:
        return answer


_BLOCK = [Keystroke(number, "", "") for number in range(3)]


def _play(pause_s: float | None, took_s: list[float]) -> tuple[list[float | None], list[float], float]:
    clock = _Clock()
    dialect = _Slow(clock, took_s)
    typist = Typist(dialect, Connection("127.0.0.1", 1), Pace(pause_s), clock, clock.sleep)
    return [answer.ms for answer in typist.play(_BLOCK)], dialect.asked_at, round(clock.now, 6)


def test_squeezed_keystrokes_come_when_the_answer_is_there() -> None:
    assert _play(None, [0.5, 0.1, 0.2]) == ([500.0, 100.0, 200.0], [0.0, 0.5, 0.6], 0.8)


def test_in_real_time_keystrokes_come_in_time_and_late_answers_are_given_up() -> None:
    assert _play(0.15, [0.05, 0.4, 0.1]) == ([50.0, None, 100.0], [0.0, 0.15, 0.3], 0.45)
