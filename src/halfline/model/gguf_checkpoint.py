"""A GGUF file as a checkpoint: its keys read by the family's table, its rows put into canonical order."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor
from halfline.model.dequantize import dequantize
from halfline.model.facts import Facts
from halfline.model.families.table import family_of_gguf
from halfline.model.families.tensor_names import canonical_from_gguf
from halfline.model.file_checkpoint import FileCheckpoint, NamedTensors
from halfline.model.gguf import GgufFile
from halfline.model.gguf_vocab import read_gguf_vocab
from halfline.model.spec import FrequencyFactors, LinearScaling, ModelSpec, RopeSpec

_ARCHITECTURE = "general.architecture"
_NAME = "general.name"
_EMBEDDING = "token_embd.weight"
_ROPE_FACTORS = "rope_freqs.weight"


def open_gguf(path: Path) -> FileCheckpoint:
    """Raises DamagedModel or UnsupportedModel; reads the header, maps the rest."""
    file = GgufFile(path)
    general = Facts(file.source, file.scalars(_ARCHITECTURE) | file.scalars(_NAME))
    architecture = general.text(_ARCHITECTURE)
    _refuse_parts(file)
    form = family_of_gguf(file.source, architecture)
    prefix = f"{architecture}."
    spec = form.from_metadata(Facts(file.source, file.scalars(prefix), prefix), _vocab_size(file))
    spec = replace(spec, name=general.text(_NAME, path.stem), rope=_with_stored_factors(file, spec.rope))
    tensors = NamedTensors(file.source, file, canonical_from_gguf, lambda name: name == _ROPE_FACTORS)
    if not form.interleaved:
        return FileCheckpoint(spec, tensors, lambda: read_gguf_vocab(file))
    if spec.rope.rotary_dim != spec.head_dim:
        raise UnsupportedModel(file.source, "a rotation of only a part of each head")
    return FileCheckpoint(
        spec, tensors, lambda: read_gguf_vocab(file), lambda tensor: _half_split(tensor, spec)
    )


def _refuse_parts(file: GgufFile) -> None:
    split = Facts(file.source, file.scalars("split."), "split.")
    num_parts = split.integer("count", 1, minimum=0)
    if num_parts > 1:
        raise UnsupportedModel(
            file.source,
            f"one of {num_parts} parts of a model; join them with `llama-gguf-split --merge` first",
        )


def _vocab_size(file: GgufFile) -> int:
    """The embedding's height. The number of tokens can be smaller: some embeddings are padded."""
    if _EMBEDDING not in file.names():
        raise DamagedModel(file.source, f"the tensor {_EMBEDDING!r} is missing")
    return file.tensor(_EMBEDDING).shape[0]


def _with_stored_factors(file: GgufFile, rope: RopeSpec) -> RopeSpec:
    """Llama 3.1's scaling is in the file as one divisor for each frequency, beside a linear factor if there is one."""
    if _ROPE_FACTORS not in file.names():
        return rope
    factors = dequantize(file.tensor(_ROPE_FACTORS)).astype(np.float64).ravel()
    if len(factors) != rope.rotary_dim // 2 or not np.all(np.isfinite(factors) & (factors > 0)):
        raise DamagedModel(
            file.source, f"{_ROPE_FACTORS!r} does not hold {rope.rotary_dim // 2} finite numbers above zero"
        )
    if isinstance(rope.scaling, LinearScaling):
        factors *= rope.scaling.factor
    return replace(rope, scaling=FrequencyFactors(tuple(factors.tolist())))


def _half_split(tensor: Tensor, spec: ModelSpec) -> Tensor:
    """Rows of q and k from GGUF's order of pairs to the canonical one; other tensors pass.

        GGUF       0 0' 1 1' 2 2' ...      rows 2i and 2i + 1 of a head turn together
        canonical  0 1 2 ... 0' 1' 2' ...  rows i and i + head_dim / 2 do

    A quantised row moves as it is, since no block crosses rows. This copies, once, what the caller keeps.
    """
    part = tensor.name.split(".")[2] if tensor.name.startswith("layers.") else ""
    if part not in ("q", "k"):
        return tensor
    length = tensor.shape[0]
    order = np.arange(length).reshape(-1, spec.head_dim // 2, 2).swapaxes(1, 2).ravel()
    # A bias is one row of `length` values; F32, F16 or BF16, whose blocks are single values.
    rows = tensor.data.reshape(length, -1)
    return Tensor(tensor.name, tensor.format, tensor.shape, rows[order].reshape(tensor.data.shape))
