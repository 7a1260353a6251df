"""The machine's limits, as far as they can be tested without a clock to trust: they exist, and bound each other."""

import pytest

from halfline.bench.limits import Limits, measure_limits
from halfline.native.executor import available_isas


@pytest.mark.parametrize("isa", available_isas())
def test_every_limit_of_every_instruction_path_is_a_rate(isa: str) -> None:
    limits = measure_limits(isa, 2, 1 << 20)
    assert isinstance(limits, Limits)
    for rate in (limits.read_near_one, limits.read_near, limits.read_far, limits.int8_block, limits.fma):
        # Nothing does fewer than a million of anything a second, or more than a quadrillion: the units are right.
        assert 1e6 < rate < 1e15
    assert limits.int8 > 1e6
