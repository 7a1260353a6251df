"""What differs in anything shares nothing."""

from itertools import combinations
from typing import Any

from halfline.kv.namespace import namespace
from halfline.model.executor import CAUSAL, Mask
from halfline.model.kv_format import F16

BASE: dict[str, Any] = {"tenant": "ab", "model": "c", "kv_format": F16.name, "mask": CAUSAL, "adapter": None}
NAME = "4ce53d51de828ce9eb82ed578590dfff"
CHANGES: list[dict[str, Any]] = [
    {},
    {"tenant": "a"},
    {"tenant": "a", "model": "bc"},
    {"model": "d"},
    {"kv_format": "int8"},
    {"mask": Mask(window=64)},
    {"mask": Mask(window=64, num_sinks=4)},
    {"mask": Mask(prefix=8)},
    {"adapter": ""},
    {"adapter": "mine"},
    {"tenant": "\udce4"},
]


def test_no_two_different_ones_have_the_same_name() -> None:
    for left, right in combinations(CHANGES, 2):
        assert namespace(**BASE | left) != namespace(**BASE | right), (left, right)


def test_the_name_is_the_same_in_every_process() -> None:
    assert namespace(**BASE) == NAME
