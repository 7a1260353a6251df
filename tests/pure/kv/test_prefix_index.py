"""What is found contains just the tokens that were asked for, behind just their past."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import Worth
from halfline.kv.prefix_index import Match, Node, PrefixIndex, token_blocks

BLOCK = 16
A, B, C = ([base + i for i in range(BLOCK)] for base in (0, 100, 200))


def publish(index: PrefixIndex, namespace: str, tokens: list[int], first_id: int) -> Node:
    """One block per 16 tokens, ids from `first_id`; the last node."""
    node = index.root(namespace)
    for position, block in enumerate(token_blocks(tokens)):
        node = index.publish(node, block, first_id + position)
    return node


def index_of(**contents: list[int]) -> PrefixIndex:
    """The tokens of each namespace, in blocks numbered from 0 on."""
    index = PrefixIndex()
    for namespace, tokens in contents.items():
        publish(index, namespace, tokens, len(index))
    index.check()
    return index


def find(index: PrefixIndex, namespace: str, tokens: list[int]) -> Match:
    *blocks, rest = token_blocks(tokens)
    return index.match(index.root(namespace), blocks, rest)


def test_the_longest_run_of_full_blocks_is_found() -> None:
    match = find(index_of(me=[*A, *B, *C]), "me", [*A, *B, *A, 5])
    assert match.block_ids == (0, 1)
    assert match.partial is None
    assert match.num_tokens == 32


def test_the_last_token_is_never_found() -> None:
    index = index_of(me=[*A, *B])
    match = find(index, "me", [*A, *B])
    assert match.block_ids == (0,)
    assert match.partial is not None
    assert (match.partial.block_id, match.partial.num_tokens) == (1, 15)
    assert find(index, "me", [*A, *B, 5]).num_tokens == 32
    assert find(index, "me", A[:1]).num_tokens == 0


def test_a_block_is_known_by_its_whole_past() -> None:
    index = index_of(me=[*A, *B])
    assert find(index, "me", [*B, 5]).num_tokens == 0
    assert find(index, "me", [*C, *B, 5]).num_tokens == 0


def test_namespaces_share_nothing() -> None:
    assert find(index_of(me=A, you=B), "you", [*A, 5]).num_tokens == 0


def test_a_tail_is_found_up_to_where_it_differs() -> None:
    index = index_of(me=[*A, 1, 2, 3])
    for wanted, num_shared in (([1, 2, 3, 4], 3), ([1, 2, 3], 2), ([1, 2, 9, 9], 2), ([9, 9], 0)):
        assert find(index, "me", [*A, *wanted]).num_tokens == 16 + num_shared


def test_only_full_blocks_are_found_whole() -> None:
    index = index_of(me=[*A, 1, 2, 3])
    match = find(index, "me", [*A, *[1, 2, 3, 4] * 8])
    assert len(match.nodes) == 1
    assert match.num_tokens == 19


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=16), min_size=1, max_size=12), st.data())
def test_of_all_blocks_behind_one_past_the_one_that_shares_most_is_found(
    known: list[list[int]], data: st.DataObject
) -> None:
    index = PrefixIndex()
    for block_id, tokens in enumerate(known):
        index.publish(index.root("me"), token_blocks(tokens)[0], block_id)
    index.check()
    wanted = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=16))
    match = find(index, "me", [*wanted, 7])

    def num_shared(tokens: list[int]) -> int:
        same = [left == right for left, right in zip(tokens, wanted, strict=False)]
        return [*same, False].index(False)

    assert match.num_tokens == max(map(num_shared, known))


def test_prompts_that_begin_alike_miss_the_same_block_and_others_do_not() -> None:
    index = index_of(me=A)
    missed = find(index, "me", [*A, *B, 1]).missed
    assert missed is not None
    assert find(index, "me", [*A, *B, 2]).missed == missed
    assert find(index, "me", [*A, *C, 1]).missed != missed
    assert find(index, "me", [*B, 1]).missed != missed
    assert find(index, "me", [*A, 1, 2]).missed == find(index, "me", [*A, 1, 2]).missed


def test_forgetting_one_twin_leaves_the_other() -> None:
    index = index_of(me=A)
    publish(index, "me", A, 7)
    index.forget([0])
    assert find(index, "me", [*A, 5]).block_ids == (7,)
    assert index.worth(0) == Worth.NOTHING and index.worth(7) == Worth.BLOCK
    index.check()


def test_a_child_is_found_again_once_its_parent_is_recomputed() -> None:
    index = index_of(me=[*A, *B])
    index.forget([0])
    assert find(index, "me", [*A, *B, 5]).num_tokens == 0
    publish(index, "me", A, 5)
    assert find(index, "me", [*A, *B, 5]).block_ids == (5, 1)
    index.check()


def test_forgetting_everything_leaves_nothing_behind() -> None:
    index = index_of(me=[*A, *B, *C, 1, 2])
    index.forget([1, 0, 3, 2])
    assert len(index) == 0
    assert not index.root("me").children and not index.root("me").order
    index.check()


def test_a_block_cannot_be_published_twice() -> None:
    index = index_of(me=A)
    with pytest.raises(InvariantBroken, match="published twice"):
        publish(index, "me", B, 0)


@pytest.mark.parametrize("tokens", [b"", b"abc", b"x" * 68])
def test_only_whole_tokens_of_one_block_can_be_published(tokens: bytes) -> None:
    index = PrefixIndex()
    with pytest.raises(InvariantBroken, match="token bytes"):
        index.publish(index.root("me"), tokens, 0)
