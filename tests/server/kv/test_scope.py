"""Blocks and answers of another model or another program have another scope, those of a copy have the same."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from halfline.cache.exact import ExactAnswers, Told
from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.cli import kv_scope as module
from halfline.cli.kv_scope import kv_scope
from halfline.engine.hash_executor import HashExecutor
from halfline.kv.block_file import SCOPE_BYTES
from halfline.model.content_digest import content_digest
from halfline.model.kv_format import F16, INT8
from halfline.sampling.sampler import Scored

SPEC = HashExecutor(1).spec
WEIGHTS = bytes(range(256)) * 64


def scope(folder: Path, name: str, data: bytes = WEIGHTS) -> bytes:
    """Of a model fetched by a server of its own, at a time of its own."""
    folder.mkdir()
    (folder / name).write_bytes(data)
    os.utime(folder / name, (len(name), len(name)))
    digest = content_digest(folder / name, folder / "digests")
    return kv_scope(digest, replace(SPEC, name=name), F16, 64)


def test_other_weights_shapes_and_formats_have_another(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = [
        kv_scope("a", SPEC, F16, 64),
        kv_scope("b", SPEC, F16, 64),
        kv_scope("a", replace(SPEC, num_layers=2), F16, 64),
        kv_scope("a", SPEC, F16, 65),
        kv_scope("a", SPEC, INT8, 64),
    ]
    monkeypatch.setattr(module, "version", lambda name: "another")
    scopes.append(kv_scope("a", SPEC, F16, 64))
    assert len({*scopes}) == 6 and {len(each) for each in scopes} == {SCOPE_BYTES}


def test_servers_that_fetched_the_same_model_apart_share_answers_and_no_others_do(tmp_path: Path) -> None:
    store = Store(MemoryTier(1 << 20, 1e9))
    changed = WEIGHTS[:5000] + b"x" + WEIGHTS[5001:]
    one, copy, other = (
        ExactAnswers(store, each)
        for each in (
            scope(tmp_path / "one", "model.gguf"),
            scope(tmp_path / "copy", "the same.gguf"),
            scope(tmp_path / "other", "model.gguf", changed),
        )
    )
    told = (Told((Scored(3),), "stop"),)
    one.put(one.address(b"question"), told)
    assert copy.get(copy.address(b"question")) == told
    assert other.get(other.address(b"question")) is None
