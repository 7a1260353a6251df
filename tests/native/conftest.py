"""What the tests of the CPU executor share: every instruction path, and batches of one sequence."""

from collections.abc import Callable

import numpy as np
import pytest

from halfline.model.executor import CAUSAL, Batch, Mask
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.native.executor import available_isas

OneSequence = Callable[..., Batch]


def pytest_report_header() -> str:
    return f"instruction paths of this machine: {', '.join(available_isas())}"


@pytest.fixture(params=["amx", "avx512vnni", "avx2", "portable"])
def isa(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name not in available_isas():
        pytest.skip(f"this CPU has no {name}")
    return name


@pytest.fixture(params=[F16, INT8], ids=["f16", "int8"])
def kv_format(request: pytest.FixtureRequest) -> KvFormat:
    chosen: KvFormat = request.param
    return chosen


@pytest.fixture(scope="session")
def one_sequence() -> OneSequence:
    """Builds a batch of one sequence that asks for everything of every row."""

    def build(
        token_ids: np.ndarray,
        first_place: int = 0,
        mask: Mask = CAUSAL,
        first_block: int = 0,
        *,
        kv_format: KvFormat = F16,
    ) -> Batch:
        count = len(token_ids)
        num_blocks = kv_format.num_blocks(first_place + count)
        rows = np.arange(count, dtype=np.int32)
        return Batch(
            token_ids=np.asarray(token_ids, dtype=np.int32),
            row_starts=np.array([0, count], dtype=np.int32),
            first_places=np.array([first_place], dtype=np.int32),
            block_tables=np.arange(first_block, first_block + num_blocks, dtype=np.int32)[None],
            masks=[mask],
            logit_rows=rows,
            hidden_rows=rows,
        )

    return build
