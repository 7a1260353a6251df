"""Ends an answer that has a whole line and has taken its time."""

import time
from collections.abc import Callable


class LineTime:
    """A text filter (sampling/reader.py): from `limit_ms` after the first text on, the answer ends with the text that
    came, if it holds a line break. An answer of one line is never cut.
    """

    rule = "line_time"

    def __init__(self, limit_ms: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._limit_ms = limit_ms
        self._clock = clock
        self._began_at: float | None = None
        self._whole_line = False
        self.stopped = False

    def push(self, text: str) -> str:
        now = self._clock()
        if self._began_at is None:
            self._began_at = now
        self._whole_line = self._whole_line or "\n" in text
        self.stopped = self._whole_line and (now - self._began_at) * 1e3 > self._limit_ms
        return text

    def finish(self) -> str:
        return ""
