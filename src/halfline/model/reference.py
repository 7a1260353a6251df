"""The forward pass of every family in plain float64 numpy: slow, written to be read. It is the specification.

Every other executor is held to this file by tests. It shows what is computed, not how to be fast: weights are
converted to float64 on every use, the KV of a sequence is gathered into one array, and every mask becomes a dense
matrix. Products go through BLAS, so rows are equal across batches and chunkings to float64 rounding (about 1e-13), not
bitwise as the executors that serve have to be.
"""

from collections.abc import Sequence
from threading import Event

import numpy as np
from numpy.typing import NDArray

from halfline.model.batch_check import check_batch
from halfline.model.checkpoint import Checkpoint
from halfline.model.dequantize import dequantize
from halfline.model.executor import BLOCK_TOKENS, Batch, Mask, Outputs, TopLogits
from halfline.model.kv_format import F16, KvFormat
from halfline.model.rope import inverse_frequencies
from halfline.model.spec import ModelSpec

Array = NDArray[np.float64]


class ReferenceExecutor:
    """Runs batches over a checkpoint's weights, kept as float32 once they were used. KV is not rounded at all."""

    def __init__(self, checkpoint: Checkpoint, num_blocks: int) -> None:
        self._checkpoint = checkpoint
        self._names = frozenset(checkpoint.names())
        self._weights: dict[str, NDArray[np.float32]] = {}
        self._spec = spec = checkpoint.spec
        self._num_blocks = num_blocks
        self._stop_flag = EventFlag()
        self._frequencies = inverse_frequencies(spec.rope)
        arena = (spec.num_layers, num_blocks, BLOCK_TOKENS, spec.num_kv_heads, spec.head_dim)
        self._keys = np.zeros(arena)
        self._values = np.zeros(arena)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def num_blocks(self) -> int:
        return self._num_blocks

    @property
    def kv_format(self) -> KvFormat:
        return F16

    @property
    def stop_flag(self) -> "EventFlag":
        return self._stop_flag

    def run(self, batch: Batch) -> Outputs | None:
        check_batch(batch, self._spec, self._num_blocks, self.kv_format)
        scale = self._spec.residual_scale
        x = self._weight("embed.weight")[batch.token_ids].astype(np.float64)  # [rows, hidden]
        x = x * self._spec.embedding_scale
        for layer in range(self._spec.num_layers):
            if self._stop_flag.is_set():
                return None
            x = x + scale * self._attention(layer, self._norm(f"layers.{layer}.attn_norm", x), batch)
            x = x + scale * self._ffn(layer, self._norm(f"layers.{layer}.ffn_norm", x))
        wanted = self._norm("final_norm", x)
        head = "head" if "head.weight" in self._names else "embed"
        rows = wanted[np.concatenate((batch.logit_rows, batch.choice_rows))]
        logits = (self._linear(head, rows) * self._spec.logit_scale).astype(np.float32)
        logits, others = np.split(logits, [len(batch.logit_rows)])
        hidden = wanted[batch.hidden_rows].astype(np.float32)
        top = top_logits(logits, batch.top_k) if batch.top_k else None
        return Outputs(logits, hidden, top, choices_of(others))

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        for arena in (self._keys, self._values):
            arena[:, list(targets)] = arena[:, list(sources)]

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        both = np.stack((self._keys[:, list(block_ids)], self._values[:, list(block_ids)]))
        by_block = np.ascontiguousarray(
            np.moveaxis(both, 2, 0)
        )  # [blocks, 2, layers, places, kv_heads, head_dim]
        return by_block.reshape(len(block_ids), -1).view(np.uint8)

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        spec = self._spec
        shape = (len(block_ids), 2, spec.num_layers, BLOCK_TOKENS, spec.num_kv_heads, spec.head_dim)
        by_block = np.ascontiguousarray(data).view(np.float64).reshape(shape)
        self._keys[:, list(block_ids)] = np.moveaxis(by_block[:, 0], 0, 1)
        self._values[:, list(block_ids)] = np.moveaxis(by_block[:, 1], 0, 1)

    def _attention(self, layer: int, x: Array, batch: Batch) -> Array:
        """x [rows, hidden], normed, to the attention's output, [rows, hidden]. Writes the rows' KV first."""
        spec, name = self._spec, f"layers.{layer}"
        q = self._linear(f"{name}.q", x).reshape(-1, spec.num_heads, spec.head_dim)
        k = self._linear(f"{name}.k", x).reshape(-1, spec.num_kv_heads, spec.head_dim)
        v = self._linear(f"{name}.v", x).reshape(-1, spec.num_kv_heads, spec.head_dim)
        if spec.qk_norm:
            q, k = self._rms_norm(f"{name}.q_norm", q), self._rms_norm(f"{name}.k_norm", k)
        attended = np.empty_like(q)
        for sequence, mask in enumerate(batch.masks):
            rows = slice(batch.row_starts[sequence], batch.row_starts[sequence + 1])
            first = int(batch.first_places[sequence])
            places = np.arange(first, first + rows.stop - rows.start)
            block_ids, slots = batch.block_tables[sequence, places // BLOCK_TOKENS], places % BLOCK_TOKENS
            self._keys[layer, block_ids, slots] = rotate(k[rows], places, self._frequencies)
            self._values[layer, block_ids, slots] = v[rows]

            earlier = np.arange(places[-1] + 1)
            block_ids, slots = batch.block_tables[sequence, earlier // BLOCK_TOKENS], earlier % BLOCK_TOKENS
            visible = visibility(mask, spec.layer_window(layer), places, earlier)
            attended[rows] = self._attend(
                rotate(q[rows], places, self._frequencies) * spec.attention_scale,
                self._keys[layer, block_ids, slots],
                self._values[layer, block_ids, slots],
                visible,
                places,
            )
        return self._linear(f"{name}.o", attended.reshape(-1, spec.q_size))

    def _attend(
        self, q: Array, keys: Array, values: Array, visible: NDArray[np.bool_], places: NDArray[np.int64]
    ) -> Array:
        """As `attend`; the rows are those at `places` of one sequence, keys and values begin at its place 0."""
        return attend(q, keys, values, visible)

    def _ffn(self, layer: int, x: Array) -> Array:
        name = f"layers.{layer}"
        up = self._linear(f"{name}.up", x)
        inner = silu(self._linear(f"{name}.gate", x)) * up if self._spec.gated else gelu_tanh(up)
        return self._linear(f"{name}.down", inner)

    def _norm(self, name: str, x: Array) -> Array:
        if self._spec.norm == "rms":
            return self._rms_norm(name, x)
        centred = x - x.mean(axis=-1, keepdims=True)
        return self._rms_norm(name, centred) + self._weight(f"{name}.bias")

    def _rms_norm(self, name: str, x: Array) -> Array:
        mean_square: Array = np.square(x).mean(axis=-1, keepdims=True)
        normed: Array = x / np.sqrt(mean_square + self._spec.norm_eps)
        return normed * self._weight(f"{name}.weight")

    def _linear(self, name: str, x: Array) -> Array:
        y: Array = x @ self._weight(f"{name}.weight").astype(np.float64).T
        return y + self._weight(f"{name}.bias") if f"{name}.bias" in self._names else y

    def _weight(self, name: str) -> NDArray[np.float32]:
        """Exact in float32, whatever the format; it meets a float64 array in every use."""
        if name not in self._weights:
            self._weights[name] = dequantize(self._checkpoint.tensor(name))
        return self._weights[name]


def top_logits(logits: NDArray[np.float32], count: int) -> TopLogits:
    """The `count` largest of each row of logits [rows, vocab]."""
    ids = np.argsort(-logits, axis=1, kind="stable")[:, :count]
    peaks = logits.max(axis=1, keepdims=True).astype(np.float64)
    with np.errstate(invalid="ignore"):  # rows that overflowed are told by their total
        log_totals = peaks[:, 0] + np.log(np.exp(logits - peaks).sum(axis=1))
    log_totals[~np.isfinite(logits).all(axis=1)] = np.nan
    return TopLogits(ids.astype(np.int32), np.take_along_axis(logits, ids, axis=1), log_totals)


def choices_of(logits: NDArray[np.float32]) -> NDArray[np.int32]:
    """The choice of each row of logits [rows, vocab]."""
    ids = logits.argmax(axis=1)  # the first of the largest; one that is not a number is larger than all
    return np.where(np.isfinite(logits[np.arange(len(ids)), ids]), ids, -1).astype(np.int32)


def with_logits(outputs: Outputs, logits: NDArray[np.float32]) -> Outputs:
    """The outputs of an executor that had computed these logits instead."""
    top = None if outputs.top is None else top_logits(logits, outputs.top.ids.shape[1])
    return Outputs(logits, outputs.hidden, top)


def sees(mask: Mask, i: int, j: int) -> bool:
    """Whether the row at place i sees place j; the definition that `visibility` follows for whole arrays."""
    in_window = mask.window is None or i - j < mask.window or j < mask.num_sinks
    return (j <= i and in_window) or (j < mask.prefix and i < mask.prefix)


def visibility(
    mask: Mask, layer_window: int | None, places: NDArray[np.int64], earlier: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """bool [len(places), len(earlier)]: what the mask shows and the layer's own window leaves of it."""
    i, j = places[:, None], earlier[None, :]
    visible = j <= i
    if mask.window is not None:
        visible &= (i - j < mask.window) | (j < mask.num_sinks)
    visible |= (i < mask.prefix) & (j < mask.prefix)
    if layer_window is not None:
        visible &= i - j < layer_window
    return visible


def attend(q: Array, keys: Array, values: Array, visible: NDArray[np.bool_]) -> Array:
    """q [rows, heads, d] (scaled), keys and values [places, kv_heads, d], visible [rows, places] to [rows, heads, d].

    Query head h reads KV head h // group: neighbours share.
    """
    attended = np.empty_like(q)
    group = q.shape[1] // keys.shape[1]
    for head in range(q.shape[1]):
        scores = np.where(visible, q[:, head] @ keys[:, head // group].T, -np.inf)  # [rows, places]
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended[:, head] = weights @ values[:, head // group]
    return attended


def rotate(x: Array, places: NDArray[np.int64], frequencies: Array) -> Array:
    """Turn each pair (i, i + rotary_dim/2) of x [rows, heads, d] by place * frequency; the rest stays."""
    half = len(frequencies)
    angles = places[:, None] * frequencies  # [rows, rotary_dim / 2]
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return np.concatenate((first * cos - second * sin, second * cos + first * sin, rest), axis=-1)


def silu(x: Array) -> Array:
    """x times the logistic function of x, by way of tanh, which does not overflow."""
    y: Array = 0.5 * x * (1 + np.tanh(0.5 * x))
    return y


def gelu_tanh(x: Array) -> Array:
    y: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return y


class EventFlag:
    """A stop flag for executors written in Python."""

    def __init__(self) -> None:
        self._event = Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()
