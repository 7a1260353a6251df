"""What a family module has to answer."""

from collections.abc import Callable
from dataclasses import dataclass

from halfline.model.facts import Facts
from halfline.model.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufForm:
    """How GGUF files describe a family.

    `from_metadata` reads the keys under the architecture's prefix; its int is the vocabulary's size, which only the
    embedding tells for certain. `interleaved` files keep the two rows of a rotary pair of q and k side by side.
    """

    architecture: str
    from_metadata: Callable[[Facts, int], ModelSpec]
    interleaved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyTable:
    """How one family's files are read: `model_type` and `from_config` for config.json, `gguf` for GGUF.

    `gguf` is None where converters write another family's architecture.
    """

    model_type: str
    from_config: Callable[[Facts], ModelSpec]
    gguf: GgufForm | None
    tied_by_default: bool = False
