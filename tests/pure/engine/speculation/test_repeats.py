"""The index finds what a plain search finds, however its text came to be."""

from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.engine.speculation.repeats import MAX_MATCHED, Repeat, Repeats

texts = st.lists(st.integers(0, 3), max_size=14)


def search(token_ids: list[int], recent: list[int]) -> Repeat | None:
    """The longest match, the latest among equals, by looking everywhere."""
    best: Repeat | None = None
    for place in range(1, len(token_ids)):
        num_matched = 0
        while (
            num_matched < min(MAX_MATCHED, len(recent), place)
            and token_ids[place - 1 - num_matched] == recent[-1 - num_matched]
        ):
            num_matched += 1
        if num_matched and (best is None or num_matched >= best.num_matched):
            best = Repeat(place, num_matched)
    return best


@settings(deadline=None)
@given(st.lists(texts, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_a_text_appended_in_pieces_is_found_as_by_plain_search(
    pieces: list[list[int]], recent: list[int]
) -> None:
    repeats, token_ids = Repeats(), []
    for piece in pieces:
        repeats.extend(piece)
        token_ids += piece
    found, expected = repeats.find(recent), search(token_ids, recent)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        # Only the latest few occurrences are looked at: no better than a full search, and right in what it says.
        assert found.num_matched <= expected.num_matched
        matched = token_ids[found.place - found.num_matched : found.place]
        assert matched == recent[-found.num_matched :]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_where_little_repeats_the_longest_latest_match_is_found(
    token_ids: list[int], recent: list[int]
) -> None:
    most_occurrences = max((token_ids.count(token_id) for token_id in token_ids), default=0)
    if most_occurrences <= 8:
        assert Repeats(token_ids).find(recent) == search(token_ids, recent)


@settings(deadline=None)
@given(st.lists(texts, min_size=2, max_size=4), texts.filter(bool))
def test_an_index_brought_up_to_date_is_one_made_anew(versions: list[list[int]], recent: list[int]) -> None:
    repeats = Repeats()
    for version in versions:
        repeats.become(version, repeats.num_alike(version))
    fresh = Repeats(versions[-1])
    assert len(repeats) == len(versions[-1])
    assert repeats.after(0, 99) == tuple(versions[-1])
    found, expected = repeats.find(recent), fresh.find(recent)
    if expected is not None and expected.num_matched > 1:
        assert found == expected
    elif found is not None:
        # A single token may be missed once what stood behind it was taken away; it is never made up.
        assert found.num_matched == 1 and versions[-1][found.place - 1] == recent[-1]


@settings(deadline=None)
@given(texts, texts)
def test_what_two_texts_have_alike_is_their_common_beginning(ones: list[int], others: list[int]) -> None:
    count = Repeats(ones).num_alike(others)
    assert ones[:count] == others[:count]
    assert count in (len(ones), len(others)) or ones[count] != others[count]


def test_the_last_tokens_do_not_find_themselves() -> None:
    assert Repeats([1, 2, 3]).find([1, 2, 3]) is None
    assert Repeats([1, 2, 3, 9, 1, 2, 3]).find([2, 3]) == Repeat(3, 2)


def test_the_longer_match_wins_over_the_later_one() -> None:
    repeats = Repeats([7, 1, 2, 5, 8, 1, 2, 6])
    assert repeats.find([7, 1, 2]) == Repeat(3, 3)
    assert repeats.find([0, 1, 2]) == Repeat(7, 2)
    assert repeats.after(3, 2) == (5, 8)


def test_a_text_that_goes_round_is_continued_round_and_round() -> None:
    repeats = Repeats([9, 1, 2, 3, 1, 2])
    assert repeats.onward(3, 7) == (3, 1, 2, 3, 1, 2, 3)
    assert repeats.after(3, 7) == (3, 1, 2)


def test_a_look_up_in_a_text_of_one_token_repeated_stays_short() -> None:
    repeats = Repeats([5] * 100_000)
    assert repeats.find([5] * 20) == Repeat(99_999, MAX_MATCHED)
