"""One server in a replay, and what it has answered so far."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.dialects import Answer, Dialect
from halfline.bench.replay.typist import Pace, Typist
from halfline.bench.replay.wire import Connection


class Process(Protocol):
    """What a replay does with a server besides asking it."""

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def cpu_seconds(self) -> float | None: ...


class SomebodyElses:
    """A server that was running before; it is not ours to stop."""

    def freeze(self) -> None:
        """It goes on."""

    def thaw(self) -> None:
        """It never stopped."""

    def cpu_seconds(self) -> float | None:
        return None


class Side:
    """A server and its typists; between two blocks it computes nothing."""

    def __init__(
        self,
        name: str,
        process: Process,
        address: tuple[str, int],
        dialect: Callable[[int], Dialect],
        *,
        follows: str | None = None,
    ) -> None:
        """`dialect` makes a typist's dialect from the number of his place. `follows`: the side whose prompts this one
        is given instead of the documents.
        """
        self.name = name
        self.follows = follows
        self.cpu_s: float | None = None
        """Computing time so far of everything between the first keystroke of each block and its last."""
        self._process = process
        self._address = address
        self._dialect = dialect
        self._typists: dict[int, Typist] = {}

    def play(self, blocks: dict[int, Sequence[Keystroke]], pace: Pace) -> dict[int, list[Answer]]:
        """Every place's block at once, each by its own typist; answers by place. Raises ReplayFailed, PeerFailed."""
        typists = [self._typist(place, pace) for place in blocks]
        self._process.thaw()
        try:
            before = self._process.cpu_seconds()
            with ThreadPoolExecutor(len(blocks)) as threads:
                played = list(threads.map(Typist.play, typists, blocks.values()))
            self._account(before)
            explained = [
                typist.explain(block, answers)
                for typist, block, answers in zip(typists, blocks.values(), played, strict=True)
            ]
        finally:
            for typist in typists:
                typist.leave()
            self._process.freeze()
        return dict(zip(blocks, explained, strict=True))

    def total_tokens(self) -> int | None:
        """Tokens that the server has run in all, prompts and answers, shown or not; None when it does not tell."""
        self._process.thaw()
        connection = Connection(*self._address)
        status, body = connection.get("/metrics")
        connection.close()
        self._process.freeze()
        return counted_tokens(body.decode()) if status == 200 else None

    def _typist(self, place: int, pace: Pace) -> Typist:
        if place not in self._typists:
            self._typists[place] = Typist(self._dialect(place), Connection(*self._address), pace)
        return self._typists[place]

    def _account(self, before: float | None) -> None:
        after = self._process.cpu_seconds()
        if before is not None and after is not None:
            self.cpu_s = (self.cpu_s or 0.0) + after - before


# Ours counts all that was run, for whomever, llama-server's prompts and answers apart.
_COUNTERS = (
    "halfline_run_tokens_total",
    "llamacpp:prompt_tokens_total",
    "llamacpp:tokens_predicted_total",
)


def counted_tokens(exposition: str) -> int | None:
    """The sum of the counters that we know, from a server's metrics; None when there are none."""
    values = dict(re.findall(r"^(\S+) (\S+)$", exposition, re.MULTILINE))
    found = [float(values[name]) for name in _COUNTERS if name in values]
    return round(sum(found)) if found else None
