import random

from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.compression.passes import Budget, lined
from halfline.context.compression.window import (
    MODULUS,
    Duplicates,
    RecentItems,
    RollingHash,
    full_hash,
)
from halfline.request import Part

LINES = ["alpha\n", "beta = 1\n", "  gamma()\n", "delta\n", "\n"]


@given(st.lists(st.integers(0, MODULUS - 1), min_size=1, max_size=40), st.integers(1, 7))
def test_the_rolling_hash_is_the_full_hash_of_the_window(values: list[int], size: int) -> None:
    rolling = RollingHash(size)
    for position, value in enumerate(values):
        assert rolling.push(value) == full_hash(values[max(0, position + 1 - size) : position + 1])
        assert 0 <= rolling.value < MODULUS


@settings(max_examples=40)
@given(st.data())
def test_windows_behind_a_random_edit_hash_as_if_read_anew(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=30))
    for _ in range(3):
        place = data.draw(st.integers(0, len(values)))
        values[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.lists(st.integers(0, 9), max_size=3)
        )
        rolling = RollingHash(4)
        for value in values:
            rolling.push(value)
        assert rolling.value == full_hash(values[-4:])


def test_order_and_leading_zeros_change_the_hash() -> None:
    assert full_hash([1, 2, 3]) != full_hash([3, 2, 1])
    assert full_hash([0, 1]) != full_hash([1])


def test_a_filter_that_is_wrong_half_the_time_loses_no_unique_piece() -> None:
    recent: RecentItems[int] = RecentItems(capacity=500, error_rate=0.5)
    rng = random.Random(0)
    keys = [rng.randrange(MODULUS) for _ in range(1500)]
    for number in keys[:500]:
        recent.add(number, number)
    assert not any(recent.knows(number, number) for number in keys[500:])
    assert 300 < recent.num_false < 700
    assert all(recent.knows(number, number) for number in keys[:500])


def test_a_collision_of_hashes_is_told_apart_by_content() -> None:
    recent: RecentItems[str] = RecentItems(capacity=4)
    recent.add(7, "one")
    assert recent.knows(7, "one")
    assert not recent.knows(7, "another")


def test_what_is_older_than_two_generations_is_forgotten() -> None:
    recent: RecentItems[int] = RecentItems(capacity=10)
    for number in range(30):
        recent.add(number, number)
    assert not recent.knows(0, 0)
    assert all(recent.knows(number, number) for number in range(20, 30))


def test_a_run_of_lines_that_came_before_is_left_out_and_its_first_stays() -> None:
    run = "".join(LINES[:4])
    shrunk = Duplicates().shrink([lined(Part(run + "own\n")), lined(Part("first\n" + run))], Budget(0))
    assert [part.text for part in shrunk.parts] == [run + "own\n", "first\n"]


def test_what_stands_around_the_cursor_is_not_said_twice() -> None:
    run = "".join(LINES[:4])
    shrunk = Duplicates().shrink([lined(Part(run + "more\n"))], Budget(0, before=run))
    assert shrunk.parts[0].text == "more\n"


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(LINES), max_size=25), max_size=4))
def test_every_distinct_line_is_left_somewhere(texts: list[list[str]]) -> None:
    parts = [lined(Part("".join(lines))) for lines in texts]
    left = Duplicates().shrink(parts, Budget(0)).parts
    assert {line.text.strip() for part in parts for line in part.lines} == {
        line.text.strip() for part in left for line in part.lines
    }
