"""`halfline quality gate` and `run` as a user types them, on the embedded model; `serve` asks for the proof."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from halfline.cli.main import app

_DATA = Path(__file__).parents[3] / "bench" / "data"
_PLANTS = ("noise", "kv-row", "position", "sign", "tokenizer")


def quality(*arguments: str, model: Path) -> Result:
    return CliRunner().invoke(
        app, ["quality", *arguments, "--model", str(model), "--data", str(_DATA)], catch_exceptions=False
    )


def line(result: Result) -> dict[str, object]:
    found: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_a_run_of_two_configurations_ends_with_its_report_and_goes_on_from_its_record(
    embedded_model: Path, tmp_path: Path
) -> None:
    kept, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    arguments = ["run", "--candidate", "kv_format=int8", "--suite", "random-span", "--limit", "2"]
    arguments += ["--max-tokens", "4", "--record", str(kept), "--html", str(page)]
    first = quality(*arguments, model=embedded_model)
    assert first.exit_code == 0, first.output
    report = line(first)
    assert report["run"]["candidate"]["kv_format"] == "int8"  # type: ignore[index]
    assert report["report"]["num_tasks"] == 2  # type: ignore[index]
    assert "pass@1" in report["report"]["quality"]  # type: ignore[index]
    assert "the worst cases" in first.stdout and "<svg" in page.read_text()
    kept.write_text("".join(kept.read_text().splitlines(keepends=True)[:-1]))  # as if it had been killed
    assert line(quality(*arguments, model=embedded_model)) == report
    other = quality(*arguments, "--seed", "2", model=embedded_model)
    assert other.exit_code == 2 and "another run, which differs in seed" in other.output


def test_the_tokenizers_fault_trips_the_gate_and_the_worst_cases_are_shown(embedded_model: Path) -> None:
    result = quality(
        "gate", "--plant", "tokenizer", "--limit", "2", "--max-tokens", "4", model=embedded_model
    )
    assert result.exit_code == 1, result.output
    assert line(result)["passed"] is False
    assert "the worst cases" in result.stdout


@pytest.mark.nightly
def test_the_identity_passes_whole(embedded_model: Path) -> None:
    result = quality("gate", "--arm", "identity", model=embedded_model)
    assert result.exit_code == 0, result.output


@pytest.mark.nightly
@pytest.mark.parametrize("plant", _PLANTS)
def test_every_planted_fault_trips_the_gate(embedded_model: Path, plant: str) -> None:
    result = quality("gate", "--plant", plant, model=embedded_model)
    assert result.exit_code == 1, result.output
    assert line(result)["passed"] is False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "there is nothing to compare on"),
        (["run", "--suite", "x"], "none by this name"),
        (["run", "--suite", "texts", "--candidate", "port=1"], "port makes no difference"),
        (["run", "--suite", "texts", "--margins", "x"], "no margins 'x'"),
        (["gate", "--arm", "x"], "no arm 'x'"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    embedded_model: Path, arguments: list[str], sentence: str
) -> None:
    result = quality(*arguments, model=embedded_model)
    assert (result.exit_code, sentence in result.output) == (2, True), result.output


def test_a_server_does_not_start_with_a_setting_that_nobody_proved(
    start_server: Callable[..., object], tmp_path: Path
) -> None:
    server = start_server("--data-dir", str(tmp_path), HALFLINE_KV_FORMAT="int8")
    assert server.process.wait(60) == 2  # type: ignore[attr-defined]
    server.wait_log_end()  # type: ignore[attr-defined]
    assert "passed no gate with it" in "".join(server.log)  # type: ignore[attr-defined]
