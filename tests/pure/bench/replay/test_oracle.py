"""The oracle knows exactly the longest beginning of any earlier prompt."""

from hypothesis import given
from hypothesis import strategies as st

from halfline.bench.replay.oracle import Oracle


@given(st.lists(st.lists(st.integers(0, 2), max_size=8), max_size=12))
def test_unknown_tokens_are_those_behind_the_longest_shared_beginning(prompts: list[list[int]]) -> None:
    oracle = Oracle()
    for number, prompt in enumerate(prompts):
        shared = max((_common(prompt, earlier) for earlier in prompts[:number]), default=0)
        assert oracle.unknown(prompt) == max(1, len(prompt) - shared)


def _common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
