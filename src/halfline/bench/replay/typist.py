"""One typist at one server: a block of keystrokes, as fast as answers come or in real time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.dialects import Answer, Dialect
from halfline.bench.replay.wire import Connection


@dataclass(frozen=True, slots=True)
class Pace:
    """`pause_s` between keystrokes, answered or not; None: the next keystroke comes when the answer is there."""

    pause_s: float | None


class Typist:
    """Keeps one connection, and opens another when an answer had to be given up."""

    def __init__(
        self,
        dialect: Dialect,
        connection: Connection,
        pace: Pace,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._dialect = dialect
        self._connection = connection
        self._pause_s = pace.pause_s
        self._clock = clock
        self._sleep = sleep

    def play(self, block: Sequence[Keystroke]) -> list[Answer]:
        """One answer per keystroke. Raises ReplayFailed."""
        if self._pause_s is None:
            return [self._dialect.ask(self._connection, keystroke, None) for keystroke in block]
        answers = []
        due = self._clock()
        for keystroke in block:
            self._sleep(max(0.0, due - self._clock()))
            due += self._pause_s
            answers.append(self._dialect.ask(self._connection, keystroke, due - self._clock()))
        # What comes after the block, a server that is frozen for one, is not this pause's.
        self._sleep(max(0.0, due - self._clock()))
        return answers

    def explain(self, block: Sequence[Keystroke], answers: Sequence[Answer]) -> list[Answer]:
        """The answers with what the server tells of them afterwards. Raises ReplayFailed."""
        return [
            self._dialect.explained(self._connection, keystroke, answer)
            for keystroke, answer in zip(block, answers, strict=True)
        ]

    def leave(self) -> None:
        """Close the connection: a frozen server must not find it too old when it wakes."""
        self._connection.close()
