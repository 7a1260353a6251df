"""`halfline quality kl` prints a table for people and one line of JSON for scripts."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from halfline.cli.main import app


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "code.py"
    path.write_text("def add(a, b):\n    return a + b\n")
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["quality", "kl", *arguments])


def test_an_executor_does_not_diverge_from_itself(embedded_model: Path, text: Path) -> None:
    result = run("--model", str(embedded_model), "--text", str(text), "--baseline", "native")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout.splitlines()[-1])
    assert record["num_positions"] > 5
    assert (record["mean_kl"], record["top1_agreement"], record["perplexity_ratio"]) == (0, 1, 1)
    assert record["mean_kl_interval"] is None  # one file
    assert "same top token" in result.stdout


@pytest.mark.parametrize(
    "words", ["refrence", "native:thread=2", "native:threads=two", "reference:threads=2"]
)
def test_an_unknown_executor_or_option_is_one_sentence(embedded_model: Path, text: Path, words: str) -> None:
    result = run("--model", str(embedded_model), "--text", str(text), "--candidate", words)
    assert result.exit_code == 2
    assert f"{words!r} is no executor; say reference, or native" in result.output


def test_an_instruction_path_that_is_not_there_and_a_text_that_is_not_are_named(
    embedded_model: Path, text: Path
) -> None:
    result = run("--model", str(embedded_model), "--text", str(text), "--candidate", "native:isa=z80")
    assert (result.exit_code, "z80" in result.output) == (2, True)
    result = run("--model", str(embedded_model), "--text", "/nowhere.py")
    assert (result.exit_code, "/nowhere.py" in result.output) == (2, True)
