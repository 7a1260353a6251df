"""Whatever lies at a path, opening it works or says what is wrong and what to do."""

import os
from pathlib import Path
from typing import Any

import pytest

from halfline.errors import BadModel, DamagedModel, ModelNotFound, UnsupportedModel
from halfline.model.load import open_checkpoint


def test_a_gguf_file_is_opened_whatever_it_is_called(tiny_gguf: Any, tmp_path: Path) -> None:
    path = tiny_gguf.write().rename(tmp_path / "model.bin")
    assert open_checkpoint(path).spec.name == "tiny"


def test_a_directory_with_one_gguf_file_stands_for_it(tiny_gguf: Any) -> None:
    path = tiny_gguf.write()
    (path.parent / "README.md").write_text("about it")
    assert open_checkpoint(path.parent).spec.name == "tiny"


def test_a_directory_with_several_asks_which(tiny_gguf: Any) -> None:
    path = tiny_gguf.write()
    (path.parent / "other.gguf").write_bytes(path.read_bytes())
    with pytest.raises(ModelNotFound, match=r"name one of other\.gguf, tiny\.gguf"):
        open_checkpoint(path.parent)


def test_nothing_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no such file or directory"):
        open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ModelNotFound, match=r"neither a \.gguf file nor config\.json"):
        open_checkpoint(tmp_path)


def test_other_files_are_named_for_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DamagedModel, match="not a GGUF file: it begins with b'hell'"):
        open_checkpoint(tmp_path / "notes.txt")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UnsupportedModel, match="give the directory"):
        open_checkpoint(tmp_path / "model.safetensors")


def test_a_directory_of_other_weights_says_which_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UnsupportedModel, match=r"no model\.safetensors"):
        open_checkpoint(tmp_path)


def test_a_path_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    os.symlink(loop, loop)
    with pytest.raises(BadModel, match="it cannot be read"):
        open_checkpoint(loop)
