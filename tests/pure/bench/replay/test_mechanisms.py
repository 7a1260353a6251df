"""What mechanisms save alone and together is read off the right servers, whose settings exist."""

import pytest

from halfline.bench.replay.dialects import Answer
from halfline.bench.replay.mechanisms import (
    LOSSY,
    MECHANISMS,
    NOTHING,
    PAIRS,
    interactions,
    record,
    rows,
    servers,
    table,
)
from halfline.bench.replay.run import Asked, Counted, Outcome, Replayed
from halfline.bench.replay.typist import Pace
from halfline.settings import load_settings

_NUM = 4


def outcome(name: str, cpu_s: float, computed: int, texts: str = "aaaa") -> Outcome:
    answers = [
        Answer(text=text, ms=1.0, first_ms=1.0, prompt_tokens=9, reused_tokens=0, generated_tokens=1)
        for text in texts
    ]
    return Outcome(
        name, answers, [Counted(computed, 1)] * _NUM, cpu_s=cpu_s, total_tokens=_NUM * (computed + 1)
    )


def replayed(*outcomes: Outcome) -> Replayed:
    asked = [Asked(0, "a.rs", number, 0, False, number == 0, "a\n") for number in range(_NUM)]
    return Replayed(Pace(None), 1, asked, list(outcomes))


@pytest.mark.parametrize("name", servers())
def test_every_server_can_be_started(name: str) -> None:
    load_settings(servers()[name])


def test_each_mechanism_is_off_in_nothing_on_alone_and_off_in_all_but_it() -> None:
    found = servers()
    for name, settings in MECHANISMS.items():
        assert not settings.items() <= NOTHING.items()
        assert found[name] == {**NOTHING, **settings}
        if name not in LOSSY:
            assert settings.items() <= found["all"].items()
            assert not settings.items() & found[f"all but {name}"].items()
    assert found["all"]["kv_format"] == "f16"


def test_what_two_save_together_stands_beside_the_sum_of_what_each_saves() -> None:
    one, other = PAIRS[0]
    played = replayed(
        outcome("nothing", 4.0, 100),
        outcome(one, 1.0, 10),
        outcome(other, 2.0, 50, "aaab"),
        outcome(f"{one} + {other}", 0.8, 5),
    )
    ((pair, apart, together),) = interactions(rows(played))
    assert pair == f"{one} + {other}"
    assert (apart, together) == (pytest.approx(750 + 500), pytest.approx(800))
    assert [row.same for row in rows(played)] == [1.0, 1.0, 0.75, 1.0]
    assert [row.exact for row in rows(played)] == [1.0, 1.0, 0.75, 1.0]
    assert [row.prompt_tokens for row in rows(played)] == [100, 10, 50, 5]
    assert [row.tokens_run for row in rows(played)] == [101, 11, 51, 6]


def test_what_is_not_known_is_left_empty() -> None:
    unknown = Outcome("nothing", outcome("", 0.0, 1).answers, [None] * _NUM, cpu_s=None, total_tokens=None)
    played = replayed(unknown)
    (row,) = rows(played)
    assert (row.prompt_tokens, row.tokens_run, row.cpu_ms) == (None, None, None)
    assert record(played)["interactions"] == []
    assert table(played).row_count == 1
