"""A hit is right even where the hash is not."""

import numpy as np
import pytest

from halfline.errors import InvariantBroken
from halfline.kv.prefix_index import PrefixIndex, token_bytes

BLOCK = 16
A, B, C = ([base + i for i in range(BLOCK)] for base in (0, 100, 200))


def index_of(**chains: list[list[int]]) -> PrefixIndex:
    """One block per 16 tokens of each chain, in the namespace that is the chain's name; ids from 0."""
    index = PrefixIndex(key=b"key")
    block_id = 0
    for namespace, blocks in chains.items():
        node = index.root(namespace)
        for tokens in blocks:
            node = index.publish(node, token_bytes(tokens), block_id)
            block_id += 1
    index.check()
    return index


def test_the_longest_run_of_full_blocks_is_found() -> None:
    index = index_of(me=[A, B, C])
    match = index.match(index.root("me"), [*A, *B, *A], max_blocks=3)
    assert match.block_ids == [0, 1]
    assert match.missed is not None


def test_no_more_blocks_are_found_than_asked_for() -> None:
    index = index_of(me=[A, B, C])
    match = index.match(index.root("me"), [*A, *B, *C], max_blocks=2)
    assert match.block_ids == [0, 1]
    assert match.missed is None


def test_a_block_is_known_by_its_whole_past() -> None:
    index = index_of(me=[A, B])
    assert index.match(index.root("me"), B, 1).block_ids == []
    assert index.match(index.root("me"), [*C, *B], 2).block_ids == []


def test_namespaces_share_nothing() -> None:
    index = index_of(me=[A], you=[B])
    assert index.match(index.root("you"), A, 1).block_ids == []


def test_digests_depend_on_the_key() -> None:
    digests = {PrefixIndex(key).match(PrefixIndex(key).root("me"), A, 1).missed for key in (b"one", b"two")}
    assert len(digests) == 2


def test_forgetting_one_twin_leaves_the_other() -> None:
    index = index_of(me=[A])
    index.publish(index.root("me"), token_bytes(A), 7)
    index.forget([0])
    assert index.match(index.root("me"), A, 1).block_ids == [7]
    assert 0 not in index and 7 in index
    index.check()


def test_a_child_is_found_again_once_its_parent_is_recomputed() -> None:
    index = index_of(me=[A, B])
    index.forget([0])
    assert index.match(index.root("me"), [*A, *B], 2).block_ids == []
    index.publish(index.root("me"), token_bytes(A), 5)
    assert index.match(index.root("me"), [*A, *B], 2).block_ids == [5, 1]
    index.check()


def test_forgetting_everything_leaves_nothing_behind() -> None:
    index = index_of(me=[A, B, C])
    index.forget([1, 0, 2])
    assert len(index) == 0
    assert index._by_digest == {}
    index.check()


def test_a_block_cannot_be_published_twice() -> None:
    index = index_of(me=[A])
    with pytest.raises(InvariantBroken, match="published twice"):
        index.publish(index.root("me"), token_bytes(B), 0)


def test_hits_are_right_with_a_hash_of_eight_bits() -> None:
    index = PrefixIndex(key=b"key", digest_bytes=1)
    random = np.random.default_rng(3)
    published = {}
    for block_id in range(0, 1200, 2):
        first, second = random.integers(0, 1000, (2, BLOCK)).tolist()
        node = index.publish(index.root("me"), token_bytes(first), block_id)
        index.publish(node, token_bytes(second), block_id + 1)
        published[block_id] = (first, second)
    index.check()
    for block_id, (first, second) in published.items():
        assert index.match(index.root("me"), [*first, *second], 2).block_ids == [block_id, block_id + 1]
    for first, second in zip(published.values(), list(published.values())[1:], strict=False):
        crossed = index.match(index.root("me"), [*first[0], *second[1]], 2)
        assert len(crossed.block_ids) == 1, "the second block was computed behind another first one"
