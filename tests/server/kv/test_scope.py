"""Blocks of another model or another program have another scope."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from halfline.cli.kv_scope import kv_scope
from halfline.engine.hash_executor import HashExecutor
from halfline.kv.block_file import SCOPE_BYTES
from halfline.model.kv_format import F16, INT8

SPEC = HashExecutor(1).spec
WEIGHTS = bytes(range(256)) * 4096


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(WEIGHTS)
    os.utime(path, (1, 1))
    return path


def test_the_same_model_has_the_same_scope(model: Path) -> None:
    assert kv_scope(model, SPEC, F16, 64) == kv_scope(model, SPEC, F16, 64)
    assert len(kv_scope(model, SPEC, F16, 64)) == SCOPE_BYTES


def test_other_shapes_formats_and_files_have_another(model: Path) -> None:
    scopes = {
        kv_scope(model, SPEC, F16, 64),
        kv_scope(model, replace(SPEC, num_layers=2), F16, 64),
        kv_scope(model, SPEC, F16, 65),
        kv_scope(model, SPEC, INT8, 64),
    }
    os.utime(model, (2, 2))
    scopes.add(kv_scope(model, SPEC, F16, 64))
    model.write_bytes(WEIGHTS + b"x")
    os.utime(model, (1, 1))
    scopes.add(kv_scope(model, SPEC, F16, 64))
    assert len(scopes) == 6


def test_weights_that_differ_everywhere_have_another_even_if_size_and_time_are_equal(model: Path) -> None:
    before = kv_scope(model, SPEC, F16, 64)
    model.write_bytes(WEIGHTS[::-1])
    os.utime(model, (1, 1))
    assert kv_scope(model, SPEC, F16, 64) != before


def test_a_folder_is_all_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(WEIGHTS)
    before = kv_scope(tmp_path, SPEC, F16, 64)
    (tmp_path / "b.safetensors").write_bytes(b"")
    assert kv_scope(tmp_path, SPEC, F16, 64) != before
