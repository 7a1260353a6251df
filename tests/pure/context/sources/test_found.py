from halfline.context.sources.found import Found, choose
from halfline.request import Part


def found(text: str, score: float, path: str = "a.py") -> Found:
    return Found(Part(text, path), "because", score)


def test_the_best_source_and_its_best_piece_come_last() -> None:
    first = [found("1a", 0.5), found("1b", 0.9)]
    second = [found("2a", 0.7)]
    assert [each.part.text for each in choose([first, second], 100)] == ["2a", "1a", "1b"]


def test_what_a_source_leaves_unused_is_the_next_one_s() -> None:
    assert [each.part.text for each in choose([[], [found("x" * 10, 1.0)]], 10)] == ["x" * 10]
    assert choose([[found("x" * 10, 1.0)], []], 10) == []  # half is its share
    first, second = [found("1" * 4, 1.0)], [found("2" * 6, 1.0)]
    assert len(choose([first, second], 10)) == 2


def test_a_piece_too_long_leaves_its_place_to_the_next() -> None:
    assert [each.part.text for each in choose([[found("x" * 20, 0.9), found("y", 0.1)]], 10)] == ["y"]


def test_equal_pieces_come_once_and_in_the_same_order_whatever_the_order_they_came_in() -> None:
    pieces = [found("b", 0.5, "b.py"), found("a", 0.5, "a.py"), found("c", 0.5, "c.py")]
    assert choose([pieces, pieces], 100) == choose([list(reversed(pieces)), pieces], 100)
    assert len(choose([pieces, pieces], 100)) == 3
