"""Text as a vector, so that text that means about the same is near. Needs the extra `semantic`.

The default are wordllama's static vectors: one for each token of its vocabulary, of a text their mean. Only the files
in that package are used, the vectors and the tokenizer.
"""

from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from halfline.errors import MissingExtra
from halfline.model.safetensors_file import SafetensorsFile

_VECTORS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class TextEmbedder(Protocol):
    """Any other will do, as long as it is fast."""

    @property
    def name(self) -> str:
        """Vectors of another name are not comparable."""

    @property
    def num_dimensions(self) -> int: ...

    def embed(self, text: str) -> NDArray[np.float32]:
        """float32 [dimensions], of length 1, or 0 where the text means nothing."""


class StaticVectors:
    """wordllama's. Raises MissingExtra."""

    name = "wordllama-l2-supercat-256"
    num_dimensions = 256

    def __init__(self) -> None:
        spec = find_spec("wordllama")
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtra("guessing from text that means about the same", "semantic")
        self._folder = Path(spec.submodule_search_locations[0])

    def embed(self, text: str) -> NDArray[np.float32]:
        whole = text.encode(errors="replace").decode()  # half a character is none
        token_ids = self._tokenizer.encode(whole, add_special_tokens=False).ids
        if not token_ids:
            return np.zeros(self.num_dimensions, np.float32)
        mean = self._vectors[token_ids].mean(axis=0, dtype=np.float32)
        length = float(np.linalg.norm(mean))
        return mean / np.float32(length) if length > 0 else np.zeros(self.num_dimensions, np.float32)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self._folder / _TOKENIZER))

    @cached_property
    def _vectors(self) -> NDArray[np.float16]:
        """[vocabulary, dimensions], mapped."""
        tensor = SafetensorsFile(self._folder / _VECTORS).tensor("embedding.weight")
        return tensor.data.view(np.float16)
