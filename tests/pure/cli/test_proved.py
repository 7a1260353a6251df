"""A server does not start with settings that lose something and that nobody has proved, and says what to do."""

from importlib.metadata import version
from pathlib import Path

import pytest

from halfline.cli.proved import check_proved
from halfline.errors import Unproved
from halfline.model.content_digest import MEMORY, content_digest
from halfline.quality.proofs import Proof, keep
from halfline.settings import Settings, load_settings


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


def known(tmp_path: Path, **flags: object) -> Settings:
    return load_settings({"data_dir": tmp_path, **flags})


def prove(tmp_path: Path, model: Path, *, passed: bool, by: str = version("halfline")) -> None:
    keep(
        tmp_path,
        Proof(
            model_sha256=content_digest(model, tmp_path / MEMORY),
            settings={"kv_format": "int8"},
            arm="kv-int8",
            passed=passed,
            date="2026-11-30",
            version=by,
            measured={},
        ),
    )


def test_what_loses_nothing_needs_no_proof_and_no_look_at_the_model(tmp_path: Path) -> None:
    check_proved(known(tmp_path), tmp_path / "not there")


def test_a_lossy_setting_starts_only_after_this_very_model_has_passed_its_gate(
    tmp_path: Path, model: Path
) -> None:
    settings = known(tmp_path, kv_format="int8")
    with pytest.raises(Unproved, match=r"kv_format is int8.*has passed no gate with it.*--allow-unproved"):
        check_proved(settings, model)
    prove(tmp_path, model, passed=True)
    check_proved(settings, model)
    model.write_bytes(b"other weights")
    with pytest.raises(Unproved, match="passed no gate"):
        check_proved(settings, model)


def test_a_proof_of_another_version_does_not_count(tmp_path: Path, model: Path) -> None:
    prove(tmp_path, model, passed=True, by="0.0.1")
    with pytest.raises(Unproved, match=rf"passed no gate with it in version {version('halfline')}"):
        check_proved(known(tmp_path, kv_format="int8"), model)


def test_a_gate_that_failed_later_is_named(tmp_path: Path, model: Path) -> None:
    prove(tmp_path, model, passed=True)
    prove(tmp_path, model, passed=False)
    with pytest.raises(Unproved, match="failed the gate kv-int8 with it on 2026-11-30"):
        check_proved(known(tmp_path, kv_format="int8"), model)


def test_whoever_says_so_may_serve_unproved(tmp_path: Path, model: Path) -> None:
    check_proved(known(tmp_path, kv_format="int8", allow_unproved=True), model)
