"""Windows begin where earlier ones did, hold the text before the cursor, and depend on nothing but history."""

import math
import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.layout import PIECE_TOKENS, PLANS_AFTER, Layout, LayoutSizes, Placement
from halfline.document.encoded_text import TextEncoder
from halfline.errors import UnencodableText
from halfline.model.random_model import byte_vocab
from halfline.text.tokenizer import Tokenizer

ENCODER = TextEncoder(Tokenizer(byte_vocab()), continues=False)  # one token per byte
SIZES = LayoutSizes(fresh_tokens=200, least_tokens=50, grown_tokens=400, max_tokens=800)


def code(num_lines: int, seed: int = 0) -> str:
    """Functions of some lines, all different."""
    rng = random.Random(seed)
    lines = []
    for number in range(num_lines):
        indent = "" if number % 3 == 0 else "    "
        lines.append(f"{indent}line {number} {rng.randrange(10**6)}\n")
    return "".join(lines)


def placed(layout: Layout, prefix: str) -> Placement:
    placement = layout.place(prefix)
    assert prefix[placement.start :] == placement.encoded.text
    assert list(placement.encoded.token_ids) == list(ENCODER.encode(placement.encoded.text).token_ids)
    assert len(placement.encoded) <= SIZES.max_tokens
    return placement


def test_a_short_document_is_there_whole() -> None:
    layout = Layout(ENCODER, SIZES)
    for text in ("", "", "a", "ab", "a" * 150):
        placement = placed(layout, text)
        assert placement.start == 0


def test_a_cold_start_computes_a_fresh_window_that_begins_at_the_least_indented_line() -> None:
    placement = placed(Layout(ENCODER, SIZES), code(500))
    assert placement.reason == "fresh"
    assert placement.num_expected == len(placement.encoded)
    assert 100 <= len(placement.encoded) <= 200
    assert placement.encoded.text.startswith("line "), "not indented"


def test_one_endless_line_is_cut_somewhere() -> None:
    placement = placed(Layout(ENCODER, SIZES), "x" * 100_000)
    assert len(placement.encoded) == 200


def test_typing_computes_what_is_typed_until_the_window_grows_and_until_it_is_full() -> None:
    layout, prefix, rng = Layout(ENCODER, SIZES), code(500), random.Random(1)
    placements = [placed(layout, prefix)]
    for _ in range(2000):
        prefix += rng.choice("abc \n")
        placements.append(placed(layout, prefix))
    for before, now in pairwise(placements):
        if now.reason == "kept":
            assert (now.start, now.num_expected) == (before.start, 1)
        elif now.reason == "grown":
            assert now.start < before.start
            assert before.planned is not None
            assert now.encoded.text.startswith(before.planned.text), "what was read ahead is its beginning"
            assert before.num_due == len(before.planned), "all of it was to be read"
            assert SIZES.grown_tokens // 2 <= len(now.encoded) <= SIZES.grown_tokens + 30
        else:
            assert now.reason == "full" and now.start > before.start
            assert len(before.encoded) == SIZES.max_tokens
    reasons = Counter(placement.reason for placement in placements)
    assert reasons["grown"] == reasons["full"] + 1 >= 4
    planned = placements[PLANS_AFTER].planned
    assert planned is not None
    num_pieces = math.ceil(len(planned) / PIECE_TOKENS)
    dues = [min(len(planned), count * PIECE_TOKENS) for count in range(1, num_pieces + 2)]
    first = placements[: PLANS_AFTER + len(dues)]
    assert [placement.num_due for placement in first] == [0] * PLANS_AFTER + dues
    assert placements[PLANS_AFTER + len(dues)].reason == "grown", "everything was due, one keystroke passed"


def test_a_plan_of_what_was_edited_since_is_made_anew() -> None:
    layout, prefix, typed = Layout(ENCODER, SIZES), code(500), ""
    edited, grown = False, []
    for _ in range(80):
        typed += "x"
        placement = placed(layout, prefix + typed)
        if placement.num_due > 100 and not edited:
            assert placement.planned is not None
            edited, place = True, len(prefix) - 350  # within what is planned, before what is read
            prefix = prefix[:place] + "!" + prefix[place + 1 :]
        grown.append(placement.reason == "grown")
        assert placement.reason in ("fresh", "kept", "grown")
    assert edited and grown.count(True) == 1
    assert grown.index(True) > PLANS_AFTER + 400 // PIECE_TOKENS, "the first plan was of no use"


def test_a_window_does_not_grow_where_nothing_is_before_it_or_what_is_cannot_be_read() -> None:
    for before, after in (("", "short\n"), ("\ud800", code(100))):
        layout, prefix = Layout(ENCODER, SIZES), before + after
        layout.place(prefix)
        for _ in range(40):
            prefix += "x"
            assert layout.place(prefix).reason in ("kept", "full")


def test_taking_back_computes_nothing_and_typing_it_again_neither() -> None:
    layout, prefix = Layout(ENCODER, SIZES), code(500) + "some words that are typed"
    placed(layout, prefix)
    for length in (*range(1, 12), *range(11, 0, -1)):
        placement = placed(layout, prefix[:-length])
        assert (placement.reason, placement.num_expected) == ("kept", 0)


def test_a_cursor_that_jumps_back_finds_its_anchor() -> None:
    layout, document = Layout(ENCODER, SIZES), code(3000)
    places = [len(document) * n // 7 for n in range(1, 7)]
    first = {place: placed(layout, document[:place]) for place in places}
    for place in (*places, *reversed(places)):
        again = placed(layout, document[:place])
        assert (again.start, again.num_expected) == (first[place].start, 0)
        assert again.reason in ("kept", "returned")


def test_an_edit_above_the_window_moves_no_anchor() -> None:
    layout, document = Layout(ENCODER, SIZES), code(500)
    before = placed(layout, document)
    now = placed(layout, "something new\n" * 100 + document)
    assert now.start == before.start + 1400
    assert (now.reason, now.num_expected) == ("kept", 0)


def test_an_edit_within_the_window_costs_what_follows_it() -> None:
    layout, document = Layout(ENCODER, SIZES), code(500)
    before = placed(layout, document)
    edit = len(document) - 60
    changed = placed(layout, document[:edit] + "!" + document[edit:])
    assert (changed.start, changed.num_expected) == (before.start, 61)
    undone = placed(layout, document)
    assert undone.start == before.start


def test_an_edit_that_is_undone_finds_the_text_of_before() -> None:
    layout, document = Layout(ENCODER, SIZES), code(500)
    while len((before := placed(layout, document)).encoded) < 600:
        document += code(1, len(document))
    edit = before.start + 300
    placed(layout, document[:edit] + "!")  # the cursor is there, and types
    assert placed(layout, document).num_expected == 0


def test_a_paste_or_another_file_is_a_cold_start_and_no_more() -> None:
    layout = Layout(ENCODER, SIZES)
    placed(layout, code(500))
    for seed in (1, 2):
        placement = placed(layout, code(500, seed))
        assert placement.reason == "fresh"
        assert placement.num_expected <= SIZES.fresh_tokens


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 10**6), st.text("ab \né🎉", max_size=30)), max_size=60
    )
)
def test_any_history_gives_the_text_before_the_cursor_and_the_same_again(
    steps: list[tuple[int, int, str]],
) -> None:
    document, cursor = code(60), 700
    prefixes = []
    for kind, number, text in steps:
        if kind == 0:
            cursor = number % (len(document) + 1)
        elif kind == 1:
            document = document[:cursor] + document[cursor + number % 90 :]
        elif kind == 2 and number % 20 == 0:
            document = text * (number % 300)
            cursor = len(document)
        else:
            document, cursor = document[:cursor] + text + document[cursor:], cursor + len(text)
        prefixes.append(document[:cursor])
    one, other = Layout(ENCODER, SIZES), Layout(ENCODER, SIZES)
    for prefix in prefixes:
        placement = placed(one, prefix)
        assert placement.num_expected <= max(SIZES.fresh_tokens, len(placement.encoded))
        guessed = other.fork()
        guessed.place(prefix + "guess")
        guessed.place("another document altogether\n" * 20)
        assert placed(other, prefix) == placement, "a fork teaches nothing"


def test_half_a_character_is_refused_where_it_stands_in_the_document() -> None:
    prefix = code(500) + "\ud800 x"
    layout = Layout(ENCODER, SIZES)
    for _ in range(2):
        with pytest.raises(UnencodableText) as caught:
            layout.place(prefix)
        assert caught.value.offset == len(prefix) - 3
    placed(layout, code(500))
    with pytest.raises(UnencodableText) as caught:
        layout.place(prefix)
    assert caught.value.offset == len(prefix) - 3
