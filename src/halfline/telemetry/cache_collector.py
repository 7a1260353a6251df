"""The caches' numbers, for GET /metrics: read from them at the moment somebody asks."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class GuessTotals(Protocol):
    """Of one tier that guesses answers. They only ever rise."""

    passed: int
    looks: int
    proposed: int
    right: int
    whole: int
    tokens_accepted: int
    cost_ms: float
    gain_ms: float


class CacheState(Protocol):
    """What the caches have done so far."""

    @property
    def num_bytes(self) -> int:
        """In memory."""

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By place (memory, disk, redis) and event."""

    def lookups(self) -> Mapping[tuple[str, str], int]:
        """By tier, and whether it found an answer or nothing."""

    def guesses(self) -> Mapping[str, GuessTotals]:
        """By tier."""


class CacheCollector(Collector):
    def __init__(self, state: CacheState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("halfline_cache_bytes", "Answers kept in memory.", self._state.num_bytes)
        events = CounterMetricFamily(
            "halfline_cache_events",
            "What became of answers kept: found or not, put, evicted, and failures of a disk or of Redis.",
            labels=("place", "event"),
        )
        for (place, event), count in self._state.counts().items():
            events.add_metric((place, event), count)
        yield events
        lookups = CounterMetricFamily(
            "halfline_cache_lookups",
            "Times that a tier looked for an answer that is kept, by what it found.",
            labels=("tier", "found"),
        )
        for (tier, found), count in self._state.lookups().items():
            lookups.add_metric((tier, found), count)
        yield lookups
        guesses = CounterMetricFamily(
            "halfline_guesses",
            "Requests that a guess might help: passed, because looking did not pay, or looked at; of these those with a"
            " guess (proposed), where the model agreed with some of it (right) and where it was the answer (whole).",
            labels=("tier", "kind"),
        )
        tokens = CounterMetricFamily(
            "halfline_guessed_tokens", "Proposed tokens that the model agreed with.", labels=("tier",)
        )
        seconds = CounterMetricFamily(
            "halfline_guess_seconds",
            "Time that looking took (cost), and decoding that it saved (gain).",
            labels=("tier", "kind"),
        )
        for tier, totals in self._state.guesses().items():
            guesses.add_metric((tier, "passed"), totals.passed)
            guesses.add_metric((tier, "looked"), totals.looks)
            guesses.add_metric((tier, "proposed"), totals.proposed)
            guesses.add_metric((tier, "right"), totals.right)
            guesses.add_metric((tier, "whole"), totals.whole)
            tokens.add_metric((tier,), totals.tokens_accepted)
            seconds.add_metric((tier, "cost"), totals.cost_ms / 1e3)
            seconds.add_metric((tier, "gain"), totals.gain_ms / 1e3)
        yield guesses
        yield tokens
        yield seconds
