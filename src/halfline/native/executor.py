"""The CPU executor: the `Executor` protocol of model/executor.py over the C++ engine.

Everything a caller can get wrong is checked here; the C++ side trusts what it is handed. Knows no kernels: which
instruction path runs is decided once, when an executor is made.
"""

import mmap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.batch_check import check_batch, check_greedy_run
from halfline.model.checkpoint import Checkpoint
from halfline.model.dequantize import dequantize
from halfline.model.executor import Batch, GreedyRun, Mask, Outputs, TopLogits
from halfline.model.kv_format import F16, KvFormat
from halfline.model.rope import inverse_frequencies
from halfline.model.spec import ModelSpec
from halfline.native import _native
from halfline.native.cpus import usable_cpus

_NO_WINDOW = 2**31 - 1


def available_isas() -> list[str]:
    """Instruction paths this machine can run, best first: `amx`, `avx512vnni`, `avx2`, `portable`."""
    return list(_native.available_isas())


class NativeExecutor:
    """Owns packed weights, the KV arena and a team of threads. `close` is its destruction.

    The checkpoint is read while this is made and not afterwards. `num_threads` None takes the CPUs this process may
    use, `isa` None the best path of this machine. Results are bitwise the same for every choice of the two.
    Raises UnsupportedModel or DamagedModel for a checkpoint it cannot run, ValueError for an `isa` not available.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        num_blocks: int,
        num_threads: int | None = None,
        isa: str | None = None,
        kv_format: KvFormat = F16,
    ) -> None:
        isas = available_isas()
        if isa is not None and isa not in isas:
            raise ValueError(f"the instruction path {isa!r} is not one of this machine's: {', '.join(isas)}")
        if num_blocks < 1 or (num_threads is not None and num_threads < 1):
            raise ValueError(f"{num_blocks} KV blocks and {num_threads} threads: both must be at least 1")
        self._spec = spec = checkpoint.spec
        self._num_blocks = num_blocks
        self._num_threads = usable_cpus() if num_threads is None else num_threads
        self._engine = _native.Engine(
            _shape(spec), kv_format.name, num_blocks, self._num_threads, isa or isas[0]
        )
        self._kv_format = kv_format
        self._stop_flag = NativeStopFlag(self._engine)
        _load(self._engine, checkpoint)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def num_blocks(self) -> int:
        return self._num_blocks

    @property
    def kv_format(self) -> KvFormat:
        return self._kv_format

    @property
    def num_threads(self) -> int:
        return self._num_threads

    @property
    def isa(self) -> str:
        return str(self._engine.isa)

    @property
    def weight_bytes(self) -> int:
        """Memory the packed weights take."""
        return int(self._engine.weight_bytes)

    @property
    def block_bytes(self) -> int:
        """Size of one KV block over all layers."""
        return int(self._engine.block_bytes)

    @property
    def stop_flag(self) -> "NativeStopFlag":
        return self._stop_flag

    def run(self, batch: Batch) -> Outputs | None:
        check_batch(batch, self._spec, self._num_blocks, self._kv_format)
        count, rows = batch.top_k, len(batch.logit_rows)
        logits = np.empty((rows, self._spec.vocab_size), dtype=np.float32)
        hidden = np.empty((len(batch.hidden_rows), self._spec.hidden_size), dtype=np.float32)
        top = TopLogits(
            np.empty((rows, count), dtype=np.int32),
            np.empty((rows, count), dtype=np.float32),
            np.empty(rows if count else 0, dtype=np.float64),
        )
        choices = np.empty(len(batch.choice_rows), dtype=np.int32)
        finished = self._engine.run(
            _int32(batch.token_ids),
            _int32(batch.row_starts),
            _int32(batch.first_places),
            _int32(batch.block_tables),
            _mask_rows(batch.masks),
            _int32(batch.logit_rows),
            _int32(batch.hidden_rows),
            _int32(batch.choice_rows),
            logits,
            hidden,
            top.ids,
            top.logits,
            top.log_totals,
            choices,
        )
        return Outputs(logits, hidden, top if count else None, choices) if finished else None

    def decode(self, run: GreedyRun) -> NDArray[np.int32]:
        check_greedy_run(run, self._spec, self._num_blocks, self._kv_format)
        ids = np.empty(run.max_tokens, dtype=np.int32)
        count = self._engine.decode(
            run.token_id,
            run.place,
            _int32(run.block_table),
            _mask_rows([run.mask])[0],
            np.array(run.end_ids, dtype=np.int32),
            ids,
        )
        return ids[:count]

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Raises ValueError for a block out of range or lists of different lengths."""
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} source blocks and {len(targets)} target blocks")
        self._engine.copy_blocks(self._blocks(sources), self._blocks(targets))

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        data = np.empty((len(block_ids), self.block_bytes), dtype=np.uint8)
        self._engine.export_blocks(self._blocks(block_ids), data)
        return data

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        """Raises ValueError when `data` is not uint8 [len(block_ids), block_bytes]."""
        if data.dtype != np.uint8 or data.shape != (len(block_ids), self.block_bytes):
            raise ValueError(
                f"{len(block_ids)} blocks need uint8 [{len(block_ids)}, {self.block_bytes}],"
                f" not {data.dtype} {list(data.shape)}"
            )
        self._engine.import_blocks(self._blocks(block_ids), np.ascontiguousarray(data))

    def _blocks(self, block_ids: Sequence[int]) -> NDArray[np.int32]:
        for block_id in block_ids:
            if not 0 <= block_id < self._num_blocks:
                raise ValueError(f"block {block_id} is not within [0, {self._num_blocks})")
        return np.array(block_ids, dtype=np.int32)


class NativeStopFlag:
    """Polled by the engine between two layers; may be set from any thread."""

    def __init__(self, engine: _native.Engine) -> None:
        self._engine = engine

    def set(self) -> None:
        self._engine.set_stop(True)

    def clear(self) -> None:
        self._engine.set_stop(False)


def _shape(spec: ModelSpec) -> _native.ModelShape:
    if spec.head_dim % 16:
        raise UnsupportedModel(spec.name, f"heads of {spec.head_dim}: their size must be a multiple of 16")
    if spec.num_heads % spec.num_kv_heads:
        raise UnsupportedModel(
            spec.name, f"{spec.num_heads} query heads do not share {spec.num_kv_heads} KV heads"
        )
    shape = _native.ModelShape()
    for name in (
        "num_layers",
        "hidden_size",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "ffn_size",
        "vocab_size",
        "max_context",
        "norm_eps",
        "gated",
        "attention_scale",
        "embedding_scale",
        "residual_scale",
        "logit_scale",
    ):
        setattr(shape, name, getattr(spec, name))
    shape.layer_norm = spec.norm == "layer"
    shape.inverse_frequencies = inverse_frequencies(spec.rope).tolist()
    shape.layer_windows = [spec.layer_window(layer) or _NO_WINDOW for layer in range(spec.num_layers)]
    return shape


def _load(engine: _native.Engine, checkpoint: Checkpoint) -> None:
    """Hand over one tensor after the other, so that little more than the packed weights is ever in memory."""
    for name in checkpoint.names():
        tensor = checkpoint.tensor(name)
        if len(tensor.shape) == 1:
            engine.add_vector(name, dequantize(tensor))
        else:
            rows = np.ascontiguousarray(tensor.data)
            engine.add_matrix(name, tensor.format.value, tensor.shape[1], rows, _is_mapped(rows))
    try:
        engine.finish_loading()
    except ValueError as error:
        raise DamagedModel(checkpoint.spec.name, str(error)) from error


def _is_mapped(data: NDArray[np.uint8]) -> bool:
    """Whether the array looks into a mapped file rather than owning memory."""
    base: object = data
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, mmap.mmap)


def _mask_rows(masks: Sequence[Mask]) -> NDArray[np.int32]:
    rows = [
        (_NO_WINDOW if mask.window is None else min(mask.window, _NO_WINDOW), mask.num_sinks, mask.prefix)
        for mask in masks
    ]
    return np.array(rows, dtype=np.int32).reshape(-1, 3)


def _int32(values: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.ascontiguousarray(values, dtype=np.int32)
