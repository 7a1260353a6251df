"""Contestants take turns, one at a time, in an order that moves on."""

from halfline.bench.rounds import take_turns
from halfline.bench.workloads import Rates


class Recorder:
    """Notes when it runs, and measures how often it has."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self._log = log
        self._turns = 0

    def measure(self) -> Rates:
        self._log.append(self.name)
        self._turns += 1
        return {"decode": float(self._turns)}

    def close(self) -> None:
        """Nothing is held."""


def test_every_round_has_everybody_once_and_starts_with_another() -> None:
    log: list[str] = []
    rounds = take_turns(
        [Recorder(name, log) for name in "abc"], 4, before_round=lambda: log.append("|"), load=lambda: 0.5
    )
    assert "".join(log) == "|abc|bca|cab|abc"
    assert [round.rates["b"]["decode"] for round in rounds] == [1, 2, 3, 4]


def test_the_load_is_read_before_and_after_each_round() -> None:
    loads = iter([0.1, 0.9, 0.2, 0.8])
    rounds = take_turns([Recorder("a", [])], 2, load=lambda: next(loads))
    assert [(round.load_before, round.load_after) for round in rounds] == [(0.1, 0.9), (0.2, 0.8)]


def test_progress_names_who_runs_next() -> None:
    log: list[str] = []
    take_turns(
        [Recorder("a", log), Recorder("b", log)], 1, before_turn=lambda name: log.append(f"next {name}")
    )
    assert log == ["next a", "a", "next b", "b"]
