"""`halfline model` lists, inspects and verifies; what is bad is one sentence and exit code 2."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from halfline.cli.main import app


@pytest.fixture
def data_dir(tmp_path: Path, embedded_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of its own with the embedded model in it."""
    shutil.copytree(embedded_model.parent, tmp_path / "models" / embedded_model.parent.name)
    monkeypatch.setenv("HALFLINE_DATA_DIR", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["model", *arguments])


def test_the_embedded_model_is_listed_inspected_and_whole(data_dir: Path) -> None:
    listed = run("list").stdout
    assert "smollm2-135m" in listed
    assert "98.4 MB" in listed
    inspected = run("inspect", "smollm2-135m").stdout
    for fact in ("llama", "134.5 million", "210 Q4_1, 61 F32, 1 Q8_0", "30 of width 576", "8,192", "49,152"):
        assert fact in inspected
    assert "all 2 files are as they were stored" in run("verify", "smollm2-135m").stdout


def test_a_flipped_byte_is_found_by_verify(data_dir: Path) -> None:
    path = next(data_dir.glob("models/*/*.gguf"))
    with path.open("r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)
        file.seek(50_000_000)
        file.write(bytes([byte[0] ^ 1]))
    result = run("verify", "smollm2-135m")
    assert result.exit_code == 2
    assert "repair with `halfline model pull smollm2-135m`" in result.output


def test_an_empty_store_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFLINE_DATA_DIR", str(tmp_path))
    assert "halfline model pull" in run("list").stdout
    for command in ("inspect", "verify"):
        result = run(command, "smollm2-135m")
        assert (result.exit_code, "no model 'smollm2-135m'" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("pull", "gpt-2"), "what can be pulled is smollm2-135m, or hf:OWNER/REPO"),
        (("pull", "hf:owner"), "write hf:OWNER/REPO"),
        (("pull", "smollm2-135m", "--offline"), "no model 'smollm2-135m'"),
        (("inspect", __file__), "not a GGUF file"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setenv("HALFLINE_DATA_DIR", str(tmp_path))
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output
