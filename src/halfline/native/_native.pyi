"""The C++ engine as Python sees it (csrc/binding.cpp). It trusts every argument: executor.py checks them.

Only bench/limits.py calls the probes of the machine's limits.
"""

from numpy import float32, float64, int32, uint8
from numpy.typing import NDArray

def available_isas() -> list[str]: ...
def linear_alone(
    isa: str,
    format: int,
    cols: int,
    file: NDArray[uint8],
    inputs: NDArray[float32],
    refined: NDArray[int32],
    outputs: NDArray[float32],
) -> None:
    """outputs [tokens, rows] = inputs [tokens, cols] times the matrix [rows, cols]: for tests.

    The tokens of `refined` are multiplied in two int8 terms.
    """

def read_bytes_per_s(num_bytes: int, num_threads: int, seconds: float, /) -> float: ...
def int8_ops_per_s(isa: str, num_threads: int, seconds: float, /) -> float: ...
def int8_block_ops_per_s(isa: str, num_threads: int, seconds: float, /) -> float: ...
def fma_ops_per_s(isa: str, num_threads: int, seconds: float, /) -> float:
    """Limits of the machine, which bench/limits.py measures; csrc/limits.hpp says what each counts."""

class ModelShape:
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    max_context: int
    layer_norm: bool
    norm_eps: float
    gated: bool
    attention_scale: float
    embedding_scale: float
    residual_scale: float
    logit_scale: float
    inverse_frequencies: list[float]
    layer_windows: list[int]

class Engine:
    def __init__(
        self, shape: ModelShape, kv_format: str, num_blocks: int, num_threads: int, isa: str
    ) -> None: ...
    def add_matrix(self, name: str, format: int, cols: int, rows: NDArray[uint8], mapped: bool) -> None:
        """`mapped`: `rows` is an unwritten view of a mapped file, whose pages may leave memory afterwards."""

    def add_vector(self, name: str, values: NDArray[float32]) -> None: ...
    def finish_loading(self) -> None: ...
    def run(
        self,
        token_ids: NDArray[int32],
        row_starts: NDArray[int32],
        first_places: NDArray[int32],
        block_tables: NDArray[int32],
        masks: NDArray[int32],
        logit_rows: NDArray[int32],
        hidden_rows: NDArray[int32],
        choice_rows: NDArray[int32],
        logits: NDArray[float32],
        hidden: NDArray[float32],
        top_ids: NDArray[int32],
        top_logits: NDArray[float32],
        log_totals: NDArray[float64],
        choices: NDArray[int32],
    ) -> bool: ...
    def decode(
        self,
        token_id: int,
        place: int,
        block_table: NDArray[int32],
        mask: NDArray[int32],
        end_ids: NDArray[int32],
        ids: NDArray[int32],
    ) -> int:
        """Fills `ids` from its beginning and returns how many there are."""

    def set_stop(self, stop: bool) -> None: ...
    @property
    def isa(self) -> str: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    def copy_blocks(self, sources: NDArray[int32], targets: NDArray[int32]) -> None: ...
    def export_blocks(self, blocks: NDArray[int32], bytes: NDArray[uint8]) -> None: ...
    def import_blocks(self, blocks: NDArray[int32], bytes: NDArray[uint8]) -> None: ...
