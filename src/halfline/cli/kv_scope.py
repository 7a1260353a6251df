"""What computed a KV block or an answer: what another model or another program left must never be taken for ours."""

from dataclasses import replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from halfline.kv.block_file import SCOPE_BYTES
from halfline.model.kv_format import KvFormat
from halfline.model.spec import ModelSpec
from halfline.native import _native


def kv_scope(weights: str | None, spec: ModelSpec, kv_format: KvFormat, block_bytes: int) -> bytes:
    """A digest of the model's content (model/content_digest.py) and shape, the KV format, halfline's version and the
    very kernels that run. What the model is called, and where it lies, is no part of it. `weights` None: nobody but
    this process will ever ask.
    """
    scope = blake2b(digest_size=SCOPE_BYTES)
    said = (weights, replace(spec, name=""), kv_format.name, block_bytes, version("halfline"))
    scope.update(repr(said).encode())
    scope.update(Path(_native.__file__).read_bytes())
    return scope.digest()
