"""Contestants take turns, round after round, on one machine, one at a time.

A shared machine drifts: what is measured a minute apart is not comparable, what is measured in the same round nearly
is. Every round starts with another contestant, so that none always follows the same one. Knows no engine.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from halfline.bench.workloads import Rates


class Contestant(Protocol):
    """One engine with one set of weights. Between two calls of `measure` it uses no processor time."""

    @property
    def name(self) -> str: ...

    def measure(self) -> Rates:
        """One turn. Raises PeerFailed when the engine cannot be run."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Round:
    """What everyone reached, with the load average of the last minute before and after."""

    load_before: float
    load_after: float
    rates: Mapping[str, Rates]


def take_turns(
    contestants: Sequence[Contestant],
    num_rounds: int,
    *,
    before_round: Callable[[], None] = lambda: None,
    before_turn: Callable[[str], None] = lambda name: None,
    load: Callable[[], float] = lambda: os.getloadavg()[0],
) -> list[Round]:
    """`num_rounds` rounds; `before_round` is called in each before anybody runs, `before_turn` with who is next."""
    rounds = []
    for number in range(num_rounds):
        load_before = load()
        before_round()
        rates: dict[str, Rates] = {}
        start = number % len(contestants)
        for contestant in (*contestants[start:], *contestants[:start]):
            before_turn(contestant.name)
            rates[contestant.name] = contestant.measure()
        rounds.append(Round(load_before, load(), rates))
    return rounds
