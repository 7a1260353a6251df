"""A Hugging Face directory as a checkpoint: config.json and safetensors, whole or in shards."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor
from halfline.model.facts import Facts
from halfline.model.families.table import family_of_config
from halfline.model.families.tensor_names import canonical_from_config
from halfline.model.file_checkpoint import FileCheckpoint, NamedTensors
from halfline.model.hf_vocab import read_hf_vocab
from halfline.model.json_file import read_json_object
from halfline.model.safetensors_file import SafetensorsFile

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def open_safetensors_dir(directory: Path) -> FileCheckpoint:
    """Raises DamagedModel or UnsupportedModel; reads the headers, maps the rest."""
    source = str(directory)
    config = Facts(source, read_json_object(directory / CONFIG))
    family = family_of_config(source, config.text("model_type"))
    if config.has("quantization_config"):
        raise UnsupportedModel(source, "its weights are quantised in a way only GGUF files are read in")
    spec = replace(family.from_config(config), name=directory.resolve().name)
    tied = config.flag("tie_word_embeddings", family.tied_by_default)
    tensors = NamedTensors(
        source, _Shards(directory), canonical_from_config, lambda name: _carries_nothing(name, tied)
    )
    if not tied and "head.weight" not in tensors.stored_names:
        raise DamagedModel(
            source, "the tensor 'lm_head.weight' is missing, and the embedding is not tied to it"
        )
    return FileCheckpoint(spec, tensors, lambda: read_hf_vocab(directory, config.values))


def _carries_nothing(name: str, tied: bool) -> bool:
    """Frequencies that follow from the config, and a tied head that was written out all the same."""
    return name.endswith(".rotary_emb.inv_freq") or (tied and name == "lm_head.weight")


class _Shards:
    """The tensors of one file, or of several as their index lists them."""

    def __init__(self, directory: Path) -> None:
        self._files: dict[str, SafetensorsFile] = {}
        self._file_of: dict[str, str] = {}
        if (directory / INDEX).exists():
            for tensor, name in self._read_index(directory / INDEX).items():
                if name not in self._files:
                    self._files[name] = SafetensorsFile(directory / name)
                if tensor not in self._files[name].names():
                    raise DamagedModel(
                        str(directory / name), f"the index promises {tensor!r}, which is not in it"
                    )
                self._file_of[tensor] = name
        else:
            self._files[WEIGHTS] = SafetensorsFile(directory / WEIGHTS)
            self._file_of = dict.fromkeys(self._files[WEIGHTS].names(), WEIGHTS)

    def names(self) -> Iterable[str]:
        return self._file_of.keys()

    def tensor(self, name: str) -> Tensor:
        return self._files[self._file_of[name]].tensor(name)

    def _read_index(self, path: Path) -> dict[str, str]:
        files = read_json_object(path).get("weight_map")
        if not isinstance(files, dict):
            raise DamagedModel(str(path), "it has no object `weight_map`")
        for name in files.values():
            # Names only, so that an index cannot point outside of its directory.
            if (
                not isinstance(name, str)
                or name in ("", ".", "..")
                or Path(name).name != name
                or "\0" in name
            ):
                raise DamagedModel(str(path), f"{name!r} is not the name of a file beside it")
        return files
