"""A proof holds for one model and exactly the settings that lose something, and the latest counts."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from halfline.quality.proofs import FILE_NAME, Proof, find, keep, lossy
from halfline.settings import load_settings

PROOF = Proof(
    model_sha256="m",
    settings={"kv_format": "int8"},
    arm="kv-int8",
    passed=True,
    date="2026-11-30",
    version="1",
    measured={"num_tasks": 3},
)


def test_what_loses_nothing_is_no_lossy_setting() -> None:
    exact = {"kv_format": "f16", "context": {"compression": [], "keep": 0.5}, "threads": 2}
    assert lossy(exact) == {}
    assert lossy(exact | {"kv_format": "int8"}) == {"kv_format": "int8"}


def test_how_much_is_left_out_counts_where_something_is() -> None:
    context = {"compression": ["prune"], "keep": 0.5, "chosen": "first", "index": None}
    settings = {"kv_format": "f16", "context": context, "pipeline": {"part_tokens": 100, "heals": True}}
    assert lossy(settings) == {
        "context.compression": ["prune"],
        "context.keep": 0.5,
        "context.chosen": "first",
        "pipeline.part_tokens": 100,
    }
    assert lossy(load_settings({"context.compression": ("prune",)}).model_dump(mode="json")) == {
        "context.compression": ["prune"],
        "context.keep": 0.69,
        "context.chosen": "wanted",
        "pipeline.part_tokens": 512,
    }
    assert lossy(load_settings({}).model_dump(mode="json")) == {}


def test_the_latest_of_the_same_model_and_settings_counts(tmp_path: Path) -> None:
    assert find(tmp_path, "m", PROOF.settings, "1") is None
    keep(tmp_path, PROOF)
    keep(tmp_path, replace(PROOF, model_sha256="other", passed=False))
    assert find(tmp_path, "m", PROOF.settings, "1") == PROOF
    assert find(tmp_path, "m", {"kv_format": "int8", "more": 1}, "1") is None
    keep(tmp_path, replace(PROOF, passed=False))
    found = find(tmp_path, "m", PROOF.settings, "1")
    assert found is not None and not found.passed


def test_what_another_version_lost_proves_nothing_of_this_one(tmp_path: Path) -> None:
    keep(tmp_path, PROOF)
    keep(tmp_path, replace(PROOF, version="2", passed=False))
    assert find(tmp_path, "m", PROOF.settings, "1") == PROOF
    assert find(tmp_path, "m", PROOF.settings, "3") is None


def test_a_line_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    keep(tmp_path, PROOF)
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"model_sha256": "m"}\n\xff\n[]\n')
    assert find(tmp_path, "m", PROOF.settings, "1") == PROOF


@pytest.mark.parametrize("passed", ["no", 1, None])
def test_a_verdict_that_is_neither_yes_nor_no_proves_nothing(tmp_path: Path, passed: object) -> None:
    keep(tmp_path, PROOF)
    with (tmp_path / FILE_NAME).open("a") as file:
        file.write(json.dumps(asdict(PROOF) | {"passed": passed}) + "\n" + "[" * 100_000 + "\n")
    assert find(tmp_path, "m", PROOF.settings, "1") == PROOF


def test_a_proof_behind_a_torn_line_counts(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).parent.mkdir()
    (tmp_path / FILE_NAME).write_text('{"model_sha2')
    keep(tmp_path, PROOF)
    assert find(tmp_path, "m", PROOF.settings, "1") == PROOF
