"""How many bytes a step must move and how many operations it must do, counted from the model's shape.

Only what cannot be avoided is counted: every weight once per step, the KV that is seen once per sequence, two
operations per weight and row, four per query dimension and visible place. In the last layer a row of which nothing is
wanted needs its key and its value alone. Of formats with a minimum per block of 32
weights two float operations per block and row come on top, the minimum times the sum of the block's activations;
scales are paid for by the machine's rate of scaled products. Activations stay in caches and are left out, as are norms
and rotations. Knows no machine and no clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.bench.limits import Limits
from halfline.model.checkpoint import Checkpoint, TensorFormat
from halfline.model.executor import BLOCK_TOKENS
from halfline.model.spec import ModelSpec
from halfline.model.tensor_shapes import optional_shapes, required_shapes

_FLOATS = (TensorFormat.F32, TensorFormat.F16, TensorFormat.BF16)
_WITH_MINIMA = (TensorFormat.Q4_1, TensorFormat.Q5_1, TensorFormat.Q4_K, TensorFormat.Q5_K)
_VALUES_PER_MINIMUM = 32
_KV_VALUE_BYTES = 2  # fp16


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes to read, integer operations and float operations. Parts of a step add up."""

    num_bytes: float = 0.0
    int_ops: float = 0.0
    float_ops: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.num_bytes + other.num_bytes, self.int_ops + other.int_ops, self.float_ops + other.float_ops
        )

    def times(self, factor: float) -> "Work":
        return Work(self.num_bytes * factor, self.int_ops * factor, self.float_ops * factor)

    def memory_seconds(self, limits: Limits) -> float:
        return self.num_bytes / limits.read_near

    def compute_seconds(self, limits: Limits) -> float:
        return self.int_ops / limits.int8_block + self.float_ops / limits.fma

    def least_seconds(self, limits: Limits) -> float:
        """Reading and computing overlap at best: the longer of the two."""
        return max(self.memory_seconds(limits), self.compute_seconds(limits))


@dataclass(frozen=True, slots=True)
class Weights:
    """What one row costs in a set of matrices, and what reading them once costs."""

    num_bytes: int
    int_ops_per_row: int
    float_ops_per_row: int

    def work(self, rows: int) -> Work:
        """None of them is read when there are no rows."""
        if rows == 0:
            return Work()
        return Work(self.num_bytes, self.int_ops_per_row * rows, self.float_ops_per_row * rows)


@dataclass(frozen=True, slots=True)
class ModelWork:
    """The parts of one model's step. `last` are those weights of the last layer that only wanted rows need."""

    spec: ModelSpec
    all_but_last: Weights
    last: Weights
    head: Weights

    def layers(self, rows: int, wanted: int) -> Work:
        """Of their matrices; something is wanted of so many of the rows."""
        return self.all_but_last.work(rows) + self.last.work(wanted)

    def attention(self, first_place: int, rows: int, wanted: int) -> Work:
        """Of one sequence whose `rows` new tokens start at `first_place`, causal; something is wanted of the last."""
        spec, stop = self.spec, first_place + rows

        def layer(first: int) -> Work:
            visible = (stop * (stop + 1) - first * (first + 1)) // 2
            num_bytes = 2.0 * spec.kv_size * _KV_VALUE_BYTES * stop if first < stop else 0.0
            return Work(num_bytes, 0.0, 4.0 * spec.q_size * visible)

        return layer(first_place).times(spec.num_layers - 1) + layer(stop - wanted)

    def step(self, sequences: Sequence[tuple[int, int]], wanted: int) -> Work:
        """`sequences` holds the first place and the number of new tokens of each; of so many the last row's logits are
        wanted, and those are the last ones."""
        total = self.layers(sum(rows for _, rows in sequences), wanted) + self.head.work(wanted)
        for left, (first_place, rows) in zip(range(len(sequences), 0, -1), sequences, strict=True):
            total = total + self.attention(first_place, rows, int(left <= wanted))
        return total

    def kv_bytes(self, num_tokens: int) -> int:
        """What `num_tokens` of one sequence take in whole blocks."""
        places = -(-num_tokens // BLOCK_TOKENS) * BLOCK_TOKENS
        return 2 * self.spec.kv_size * _KV_VALUE_BYTES * self.spec.num_layers * places


def count(checkpoint: Checkpoint) -> ModelWork:
    """From the formats its matrices are stored in; packed weights take as many bytes but for padding."""
    names = set(checkpoint.names())
    shapes = required_shapes(checkpoint.spec) | optional_shapes(checkpoint.spec)
    layers = {name for name in names if len(shapes[name]) == 2 and name.startswith("layers.")}
    index = checkpoint.spec.num_layers - 1
    last = {name for name in layers if name.startswith(f"layers.{index}.")}
    last -= {f"layers.{index}.k.weight", f"layers.{index}.v.weight"}
    head = "head.weight" if "head.weight" in names else "embed.weight"
    return ModelWork(
        checkpoint.spec,
        _weights(checkpoint, sorted(layers - last)),
        _weights(checkpoint, sorted(last)),
        _weights(checkpoint, [head]),
    )


def main_format(checkpoint: Checkpoint) -> str:
    """The format that most of the layers' bytes are stored in, such as `Q4_1`."""
    sizes: dict[str, int] = {}
    for name in checkpoint.names():
        tensor = checkpoint.tensor(name)
        if name.startswith("layers.") and len(tensor.shape) == 2:
            sizes[tensor.format.name] = sizes.get(tensor.format.name, 0) + tensor.data.nbytes
    return max(sizes, key=lambda format_name: sizes[format_name])


def _weights(checkpoint: Checkpoint, names: Sequence[str]) -> Weights:
    tensors = [checkpoint.tensor(name) for name in names]

    def num_weights(formats: Sequence[TensorFormat]) -> int:
        return sum(t.shape[0] * t.shape[1] for t in tensors if t.format in formats)

    quantised = [format for format in TensorFormat if format not in _FLOATS]
    minima = num_weights(_WITH_MINIMA) // _VALUES_PER_MINIMUM
    return Weights(
        sum(tensor.data.nbytes for tensor in tensors),
        int_ops_per_row=2 * num_weights(quantised),
        float_ops_per_row=2 * num_weights(_FLOATS) + 2 * minima,
    )
