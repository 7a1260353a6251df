"""What computed a KV block: a block of another model or another program must never be taken for one of ours."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from halfline.kv.block_file import SCOPE_BYTES
from halfline.model.kv_format import KvFormat
from halfline.model.spec import ModelSpec
from halfline.native import _native

_NUM_SAMPLES = 64
_SAMPLE_BYTES = 4096


def kv_scope(model_path: Path, spec: ModelSpec, kv_format: KvFormat, block_bytes: int) -> bytes:
    """A digest of the model's shape and weights, the KV format, and the very kernels that run.

    Weights are sampled, not read whole: that would take longer than loading. A changed file also has another size or
    another time of its last change.
    """
    scope = blake2b(digest_size=SCOPE_BYTES)
    scope.update(f"{spec!r} {kv_format.name} {block_bytes}".encode())
    scope.update(Path(_native.__file__).read_bytes())
    for path in sorted(model_path.iterdir()) if model_path.is_dir() else [model_path]:
        if path.is_file():
            status = path.stat()
            scope.update(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode())
            for sample in _samples(path, status.st_size):
                scope.update(sample)
    return scope.digest()


def _samples(path: Path, num_bytes: int) -> Iterator[bytes]:
    """Pieces spread evenly over the file, its beginning and end among them."""
    last = max(0, num_bytes - _SAMPLE_BYTES)
    with path.open("rb") as file:
        for position in range(_NUM_SAMPLES):
            file.seek(last * position // (_NUM_SAMPLES - 1))
            yield file.read(_SAMPLE_BYTES)
