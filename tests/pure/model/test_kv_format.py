"""How many blocks a length takes, in each format."""

import pytest

from halfline.model.kv_format import BLOCK_TOKENS, F16, INT8, KvFormat, kv_format_named

FORMATS = [F16, INT8]


@pytest.mark.parametrize("kv_format", FORMATS, ids=lambda each: each.name)
def test_blocks_for_a_length_are_enough_for_it_and_not_for_one_block_more(kv_format: KvFormat) -> None:
    for num_tokens in range(1, 70):
        num_blocks = kv_format.num_blocks(num_tokens)
        assert num_tokens <= kv_format.num_tokens(num_blocks) < num_tokens + BLOCK_TOKENS
    assert kv_format.num_blocks(0) == 0


def test_an_open_block_of_int8_takes_two() -> None:
    assert [F16.num_blocks(length) for length in (1, 16, 17)] == [1, 1, 2]
    assert [INT8.num_blocks(length) for length in (1, 16, 17)] == [2, 2, 3]
    assert [INT8.num_blocks_at(length) for length in (0, 1, 16, 17)] == [0, 2, 1, 3]


def test_what_may_turn_out_wrong_never_fills_a_block_of_int8() -> None:
    assert F16.num_revocable(5) is None
    for first_place in range(40):
        room = INT8.num_revocable(first_place)
        assert room is not None
        assert (first_place + room) // BLOCK_TOKENS == first_place // BLOCK_TOKENS
    assert INT8.num_revocable(15) == 0


def test_int8_is_58_percent_of_f16() -> None:
    assert F16.head_bytes(64) == 4096
    assert INT8.head_bytes(64) == 2368


def test_formats_have_names() -> None:
    assert [kv_format_named(each.name) for each in FORMATS] == FORMATS
