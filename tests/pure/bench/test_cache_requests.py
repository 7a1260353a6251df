"""Which requests the replay of the caches makes, and what is told of its answers."""

import gzip
from collections import Counter
from pathlib import Path

from halfline.bench.cache_replay import Asked, Replayed
from halfline.bench.cache_report import Rows, summary, tables
from halfline.bench.cache_requests import MIX, Place, drawn, edited, place, renamed
from halfline.cache.scope import scope_at
from halfline.document.syntax_tree import PYTHON

CODE = Place(
    "library",
    "a.py",
    "import os\ndef total(xs):\n    s = os.s\n    for x in xs:\n        s += ",
    "\n    return s\n",
)


def test_places_are_drawn_by_zipf_s_law_in_the_stated_mix_and_always_the_same() -> None:
    places = [Place("trace", f"{number}.rs", "fn", "") for number in range(50)]
    requests = list(drawn(places, 5000, seed=3))
    assert requests == list(drawn(places, 5000, seed=3))
    ways = Counter(way for way, _ in requests)
    assert all(abs(ways[way] / 5000 - share) < 0.03 for way, share in MIX.items())
    counts = [count for _, count in Counter(found.path for _, found in requests).most_common()]
    assert 6 < counts[0] / counts[9] < 11, "of rank one and rank ten: 10 to the power of 0.9 is 7.9"


def test_a_renamed_place_is_another_text_of_the_same_shape() -> None:
    other = renamed(CODE)
    assert other is not None and other.before != CODE.before
    assert "os.s" in other.before, "an attribute keeps its name"
    shapes = [scope_at(each.before, each.behind, PYTHON) for each in (CODE, other)]
    assert shapes[0] is not None and shapes[1] is not None
    assert shapes[0].shape == shapes[1].shape and shapes[0].names != shapes[1].names


def test_where_there_is_no_function_nothing_is_renamed() -> None:
    assert renamed(Place("trace", "a.txt", "some words", "")) is None
    assert renamed(Place("trace", "a.py", "x = ", "")) is None


def test_an_edited_place_has_one_more_line_and_the_same_cursor() -> None:
    other = edited(CODE)
    assert len(other.before.splitlines()) == len(CODE.before.splitlines()) + 1
    assert other.before.splitlines()[-1] == CODE.before.splitlines()[-1]


def test_a_place_begins_with_a_line() -> None:
    found = place("trace", "a.rs", "".join(f"line {number}\n" for number in range(1000)), "x" * 1000)
    assert found.before.startswith("line ") and len(found.before) <= 1500 and len(found.behind) == 400


def test_the_summary_compares_each_tier_with_what_nobody_knew() -> None:
    replayed = Replayed(
        asked=[Asked("again", "trace", "miss", 100.0 + each, 1.0, 42.0, 8) for each in range(3)]
        + [
            Asked("again", "trace", "exact", 2.0, 1.0, 0.0, 8),
            Asked("renamed", "trace", "syntax", 80.0, 1.0, 14.0, 8, 7, "syntax"),
            Asked("renamed", "trace", "miss", 80.0, 1.0, 28.0, 8, 2, "syntax"),
        ],
        false=[{"tier": "exact"}],
    )
    found = summary(replayed)
    tiers, guessed = found["tiers"], found["guessed"]
    assert isinstance(tiers, dict) and isinstance(guessed, dict)
    assert tiers["exact"]["times_faster_p50"] == 101.0 / 2.0
    assert tiers["syntax"]["decode_times_faster"] == 3.0
    assert [guessed["syntax"][kind]["decode_times_faster"] for kind in ("whole", "in part")] == [3.0, 1.5]
    assert (tiers["exact"]["share"], found["false_hits"]) == (1 / 6, 1)
    assert "http" not in tiers and guessed["semantic"] == {}
    assert tiers["miss"]["requests"] == 3, "who was helped is no miss to compare with"
    assert all(table.row_count for table in tables(found))


def test_what_was_written_of_the_requests_can_be_read_while_more_is(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows.jsonl.gz")
    for _ in range(1000):
        rows.add(Asked("again", "trace", "miss", 100.0004, 1.0, 42.0, 8))
    rows.add(Asked("again", "trace", "exact", 1.0, 1.0, 0.0, 8))
    with gzip.open(tmp_path / "rows.jsonl.gz", "rt") as file:
        assert [next(file) for _ in range(1000)][-1] == '["again","trace","miss",100.0,1.0,42.0,8,0,""]\n'
    rows.close()
    with gzip.open(tmp_path / "rows.jsonl.gz", "rt") as file:
        assert len(file.readlines()) == 1001
