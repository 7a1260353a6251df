"""The accounts of both allocators, on replays short enough to follow by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.bench.allocation import Blocks, Doubling, Request, editor_requests, replay


def test_one_sequence_in_blocks_wastes_the_end_of_its_last_block() -> None:
    waste = replay([Request(prompt=15, answer=3)], Blocks(), 1)
    # 15, 16, 17 and 18 tokens, in 16, 16, 32 and 32 places.
    assert waste.inside == pytest.approx((1 / 16 + 0 + 15 / 32 + 14 / 32) / 4)
    assert (waste.peak_used, waste.peak_reserved, waste.peak_span, waste.copied) == (18, 32, 32, 0)
    assert waste.between == 0


def test_a_piece_that_is_full_moves_into_one_of_twice_the_size() -> None:
    doubling = Doubling()
    doubling.grow(0, 16)
    doubling.grow(0, 17)
    assert (doubling.reserved, doubling.copied) == (32, 16)
    # While it moved both pieces existed, the new one behind the old one.
    assert (doubling.peak_reserved, doubling.peak_span) == (48, 48)


def test_a_freed_piece_is_used_again_by_one_that_fits_and_by_no_larger_one() -> None:
    doubling = Doubling()
    for sequence in range(3):
        doubling.grow(sequence, 32)
    doubling.free(1)
    doubling.grow(3, 48)
    assert doubling.peak_span == 3 * 32 + 48
    doubling.grow(4, 20)
    assert doubling.peak_span == 3 * 32 + 48
    assert doubling.reserved == 2 * 32 + 48 + 32


def test_a_hole_that_nobody_fits_into_is_lost_between_pieces_and_blocks_have_none() -> None:
    doubling = Doubling()
    for sequence in range(2):
        doubling.grow(sequence, 32)
    doubling.free(0)
    assert (doubling.reserved, doubling.span) == (32, 64)
    blocks = Blocks()
    for sequence in range(2):
        blocks.grow(sequence, 32)
    blocks.free(0)
    assert (blocks.reserved, blocks.span) == (32, 32)


LENGTHS = st.builds(Request, prompt=st.integers(1, 200), answer=st.integers(0, 60))


@given(st.lists(LENGTHS, min_size=1, max_size=30), st.integers(1, 8))
def test_whatever_is_replayed_everything_is_given_back_and_bounds_hold(
    requests: list[Request], num_slots: int
) -> None:
    for allocator in (Blocks(), Doubling()):
        waste = replay(requests, allocator, num_slots)
        assert allocator.reserved == 0
        assert waste.peak_used <= waste.peak_reserved <= waste.peak_span
        assert 0 <= waste.inside < 1 and 0 <= waste.between < 1
    blocks = Blocks()
    assert replay(requests, blocks, num_slots).peak_reserved <= sum(
        -(-(request.prompt + request.answer) // 16) * 16 for request in requests
    )


def test_editor_requests_are_the_same_every_time_and_fit() -> None:
    requests = editor_requests(500, max_tokens=1000)
    assert requests == editor_requests(500, max_tokens=1000)
    assert all(1 <= request.prompt and request.prompt + request.answer <= 1000 for request in requests)
    assert all(1 <= request.answer <= 64 for request in requests)
