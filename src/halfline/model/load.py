"""From a path to a checkpoint, whatever lies there."""

from pathlib import Path

from halfline.errors import BadModel, DamagedModel, ModelNotFound, UnsupportedModel
from halfline.model.checkpoint import Checkpoint
from halfline.model.gguf_checkpoint import open_gguf
from halfline.model.safetensors_dir import CONFIG, INDEX, WEIGHTS, open_safetensors_dir


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file, a directory holding just one, or a Hugging Face directory.

    Raises ModelNotFound when nothing like that is there, else DamagedModel or UnsupportedModel saying why not.
    """
    try:
        return _open_directory(path) if path.is_dir() else _open_file(path)
    except FileNotFoundError as error:
        raise ModelNotFound(str(path), "there is no such file or directory") from error
    except OSError as error:
        raise BadModel(str(path), f"it cannot be read: {error.strerror}") from error


def _open_file(path: Path) -> Checkpoint:
    if path.suffix == ".safetensors":
        raise UnsupportedModel(
            str(path), "weights alone are no model; give the directory that also holds config.json"
        )
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise DamagedModel(str(path), f"not a GGUF file: it begins with {magic!r}")
    return open_gguf(path)


def _open_directory(path: Path) -> Checkpoint:
    if (path / CONFIG).exists() and ((path / WEIGHTS).exists() or (path / INDEX).exists()):
        return open_safetensors_dir(path)
    gguf_files = sorted(path.glob("*.gguf"))
    if len(gguf_files) == 1:
        return _open_file(gguf_files[0])
    if gguf_files:
        found = ", ".join(file.name for file in gguf_files)
        raise ModelNotFound(str(path), f"the directory holds several; name one of {found}")
    if (path / CONFIG).exists():
        raise UnsupportedModel(
            str(path), f"it has {CONFIG} but no {WEIGHTS}; other formats of weights are not read"
        )
    raise ModelNotFound(str(path), f"the directory holds neither a .gguf file nor {CONFIG} with {WEIGHTS}")
