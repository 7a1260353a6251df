"""Places are spread over all traces, or where the user said."""

from halfline.bench.replay.places import chosen
from halfline.bench.replay.trace import Edit, Trace

_LONG = Trace("long", "", [(Edit(0, 0, "x"),)] * 100)
_SHORT = Trace("short", "", [(Edit(0, 0, "x"),)] * 10)


def test_places_are_spread_from_the_beginning_to_the_end() -> None:
    found = [(each.trace.path, each.first, each.stop) for each in chosen([_LONG, _SHORT], [], 5, 20)]
    assert found == [("long", 0, 20), ("long", 40, 60), ("long", 80, 100), ("short", 0, 10), ("short", 0, 10)]


def test_named_places_are_taken_from_every_trace() -> None:
    found = [(each.trace.path, each.first, each.stop) for each in chosen([_LONG, _SHORT], [3, 5], 9, 4)]
    assert found == [("long", 3, 7), ("short", 3, 7), ("long", 5, 9), ("short", 5, 9)]
