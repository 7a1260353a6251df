"""Percentiles, ratios and shares are those of the answers that they claim to be of."""

import json
from dataclasses import replace

import pytest

from halfline.bench.replay.dialects import Answer
from halfline.bench.replay.report import full_record, groups, summary_record, tables
from halfline.bench.replay.run import Asked, Counted, Outcome, Replayed
from halfline.bench.replay.statistics import Percentiles, differences, ratios, summarize
from halfline.bench.replay.typist import Pace

_NUM = 200
_ONE = Counted(computed=1, unknown=1)


def _asked(number: int, *, is_long: bool = False, typed: str = "abc") -> Asked:
    return Asked(0, "a.rs", number, number // 25, is_long, number == 0, typed)


def _answer(ms: float | None, *, tier: str = "", text: str = "abx") -> Answer:
    return Answer(
        text=text,
        ms=ms,
        first_ms=ms,
        prompt_tokens=10,
        reused_tokens=9,
        generated_tokens=2,
        tier=tier,
    )


def _outcome(name: str, answers: list[Answer], counted: Counted | None = _ONE) -> Outcome:
    return Outcome(name, answers, [counted] * len(answers), cpu_s=2.0, total_tokens=6 * len(answers))


def _replayed(outcomes: list[Outcome], pause_s: float | None = None) -> Replayed:
    return Replayed(Pace(pause_s), 1, [_asked(i, is_long=i % 2 == 0) for i in range(_NUM)], outcomes)


def test_a_ratio_lies_within_its_interval_and_is_exact_when_every_pair_has_it() -> None:
    ours = _outcome("ours", [_answer(1.0 + i % 7) for i in range(_NUM)])
    theirs = _outcome("theirs", [_answer(3.0 * (1.0 + i % 7)) for i in range(_NUM)])
    for ratio in ratios(_replayed([ours, theirs]), ours, theirs, range(_NUM)).values():
        assert ratio.value == pytest.approx(3.0)
        assert ratio.low <= ratio.value <= ratio.high


def test_an_answer_given_up_counts_as_long_as_the_pause_and_as_not_answered() -> None:
    outcome = _outcome("ours", [_answer(None if i % 4 == 0 else 5.0) for i in range(_NUM)])
    summary = summarize(_replayed([outcome], 0.15), outcome, range(_NUM))
    assert (summary.unanswered, summary.at_once) == (0.25, 0.75)
    assert summary.total.p50 == 5.0 and summary.total.p95 == pytest.approx(150.0)


def test_a_server_that_is_never_in_time_has_no_first_text() -> None:
    outcome = _outcome("ours", [_answer(None)] * _NUM)
    replayed = _replayed([outcome], 0.15)
    summary = summarize(replayed, outcome, range(_NUM))
    assert (summary.first, summary.unanswered, summary.quality) == (None, 1.0, None)
    assert len(list(tables(replayed))) == 7
    json.dumps(summary_record(replayed), allow_nan=False)


def test_tokens_beyond_the_unknown_ones_leave_the_cold_start_out() -> None:
    answers = [_answer(1.0, tier="typed" if i < 50 else "miss") for i in range(_NUM)]
    outcome = _outcome("ours", answers, Counted(computed=3, unknown=1))
    outcome.counted[0] = Counted(computed=1000, unknown=1000)
    summary = summarize(_replayed([outcome]), outcome, range(_NUM))
    assert summary.tokens is not None
    assert summary.tokens.excess == Percentiles(2.0, 2.0, 2.0) and summary.tokens.num_cold == 1
    assert summary.tokens.computed.p99 == 3.0
    assert summary.tiers == {"miss": 0.75, "typed": 0.25}


def test_worth_is_judged_where_the_user_typed_on_and_an_answer_came() -> None:
    replayed = Replayed(
        Pace(None),
        1,
        [_asked(0), _asked(1, typed=""), _asked(2), _asked(3)],
        [_outcome("ours", [_answer(1.0), _answer(1.0), _answer(None), _answer(1.0, text="abc")])],
    )
    quality = summarize(replayed, replayed.outcomes[0], range(4)).quality
    assert quality is not None
    assert (quality.num_judged, quality.exact, quality.common_prefix) == (2, 0.5, 2.5)
    assert quality.kept_share == pytest.approx(5 / 6)


def test_a_difference_in_worth_is_taken_keystroke_by_keystroke_where_both_were_judged() -> None:
    """Every fourth keystroke one side is right and the other keeps two of three characters; some are not judged."""
    ours = _outcome("ours", [_answer(1.0, text="abc" if i % 4 == 0 else "abx") for i in range(_NUM)])
    theirs = _outcome("theirs", [_answer(None if i % 8 == 1 else 1.0) for i in range(_NUM)])
    replayed = _replayed([ours, theirs])
    found = differences(replayed, ours, theirs, range(_NUM))
    share = 50 / 175
    assert {name: each.value for name, each in found.items()} == pytest.approx(
        {"exact": share, "common_prefix": share, "kept": share}
    )
    assert all(0.0 < each.low <= each.value <= each.high < 0.5 for each in found.values())
    same = differences(replayed, ours, ours, range(_NUM))
    assert {(each.value, each.low, each.high) for each in same.values()} == {(0.0, 0.0, 0.0)}
    late = _outcome("late", [_answer(None)] * _NUM)
    assert differences(_replayed([ours, late]), ours, late, range(_NUM)) == {}


def test_unknown_prompts_and_silent_servers_leave_their_numbers_out() -> None:
    outcome = _outcome("theirs", [Answer(text="", ms=1.0, first_ms=None)] * _NUM, None)
    summary = summarize(_replayed([outcome]), outcome, range(_NUM))
    assert summary.tokens is None


def test_tables_and_records_are_made_of_both_groups() -> None:
    replayed = _replayed([_outcome("ours", [_answer(1.0)] * _NUM), _outcome("theirs", [_answer(2.0)] * _NUM)])
    assert {name: len(places) for name, places in groups(replayed).items()} == {
        "files longer than 256 lines": 100,
        "shorter files": 100,
    }
    assert len(list(tables(replayed))) == 7
    record = json.loads(json.dumps(full_record(replayed, {"cpu": "x"})))
    theirs = record["summary"]["groups"]["shorter files"]["theirs"]
    assert theirs["ratios"]["p50"]["value"] == 2.0
    assert theirs["differences"]["kept"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert len(record["answers"]["ours"]) == _NUM
    costs = summary_record(replayed)["costs"]
    assert costs == {
        name: {"cpu_ms": 10.0, "tokens_run": 6.0, "tokens_shown": 3.0} for name in ("ours", "theirs")
    }


def test_typists_are_as_unfairly_served_as_the_worst_is_beside_the_best() -> None:
    outcome = _outcome("ours", [_answer(1.0 + 2.0 * (i % 2)) for i in range(_NUM)])
    asked = [replace(_asked(i), place=i % 2) for i in range(_NUM)]
    summaries = [
        summarize(Replayed(Pace(None), typists, asked, [outcome]), outcome, range(_NUM)) for typists in (1, 2)
    ]
    assert [summary.unfairness for summary in summaries] == [None, 3.0]
