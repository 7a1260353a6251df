"""The families we run, found by the name a file gives."""

from halfline.errors import UnsupportedModel
from halfline.model.families.family import FamilyTable, GgufForm
from halfline.model.families.granite import GRANITE
from halfline.model.families.llama import LLAMA
from halfline.model.families.mistral import MISTRAL
from halfline.model.families.qwen2 import QWEN2
from halfline.model.families.qwen3 import QWEN3
from halfline.model.families.starcoder2 import STARCODER2

FAMILIES = (LLAMA, MISTRAL, QWEN2, QWEN3, STARCODER2, GRANITE)


def family_of_config(source: str, model_type: str) -> FamilyTable:
    for family in FAMILIES:
        if family.model_type == model_type:
            return family
    raise _unsupported(source, model_type)


def family_of_gguf(source: str, architecture: str) -> GgufForm:
    for family in FAMILIES:
        if family.gguf is not None and family.gguf.architecture == architecture:
            return family.gguf
    raise _unsupported(source, architecture)


def _unsupported(source: str, found: str) -> UnsupportedModel:
    supported = ", ".join(family.model_type for family in FAMILIES)
    return UnsupportedModel(source, f"a {found!r} model; the families supported are {supported}")
