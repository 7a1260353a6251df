"""What /metrics shows of the caches."""

from prometheus_client import CollectorRegistry, generate_latest

from halfline.cache.worth import Totals
from halfline.telemetry.cache_collector import CacheCollector


class Caches:
    num_bytes = 1234

    def counts(self) -> dict[tuple[str, str], int]:
        return {("memory", "hit"): 3, ("disk", "failed"): 1}

    def lookups(self) -> dict[tuple[str, str], int]:
        return {("exact", "answer"): 5, ("http", "nothing"): 2}

    def guesses(self) -> dict[str, Totals]:
        return {
            "syntax": Totals(
                6, looks=9, proposed=4, right=2, whole=1, tokens_accepted=7, cost_ms=20.0, gain_ms=35.0
            )
        }


def test_every_count_has_its_place_and_cost_and_gain_are_in_seconds() -> None:
    registry = CollectorRegistry()
    registry.register(CacheCollector(Caches()))
    text = generate_latest(registry).decode()
    for sample in (
        "halfline_cache_bytes 1234.0",
        'halfline_cache_events_total{event="hit",place="memory"} 3.0',
        'halfline_cache_events_total{event="failed",place="disk"} 1.0',
        'halfline_cache_lookups_total{found="answer",tier="exact"} 5.0',
        'halfline_cache_lookups_total{found="nothing",tier="http"} 2.0',
        'halfline_guesses_total{kind="passed",tier="syntax"} 6.0',
        'halfline_guesses_total{kind="looked",tier="syntax"} 9.0',
        'halfline_guesses_total{kind="proposed",tier="syntax"} 4.0',
        'halfline_guesses_total{kind="whole",tier="syntax"} 1.0',
        'halfline_guesses_total{kind="right",tier="syntax"} 2.0',
        'halfline_guessed_tokens_total{tier="syntax"} 7.0',
        'halfline_guess_seconds_total{kind="cost",tier="syntax"} 0.02',
        'halfline_guess_seconds_total{kind="gain",tier="syntax"} 0.035',
    ):
        assert sample in text
