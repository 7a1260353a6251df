"""A gate leaves a proof only of what lost something, had occasion to, and was held to the same model without it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from halfline.cli.main import app
from halfline.cli.quality_arms import Side, version
from halfline.cli.quality_comparing import Comparison, show
from halfline.cli.quality_gate import keep_proof
from halfline.cli.quality_suites import Suites
from halfline.quality.comparison.case import Answer, Case
from halfline.quality.configuration import read_configuration
from halfline.quality.divergence import Scores
from halfline.quality.gate_file import GateFile, read_gate_file
from halfline.quality.infilling.suites import Task
from halfline.quality.margins import Margins
from halfline.quality.proofs import MIN_TASKS, find, lossy
from halfline.quality.regression_test import Verdict, run_regression_test
from halfline.request import Part
from halfline.settings import load_settings

GATES: GateFile = read_gate_file()


def task(*parts: Part) -> Task:
    return Task(
        id="t",
        problem="p",
        path="x.py",
        prefix="a",
        suffix="",
        wanted="b",
        single_line=True,
        checks=None,
        parts=parts,
    )


def answer(prompt_tokens: int) -> Answer:
    return Answer(text="b", passed=None, prompt_tokens=prompt_tokens, computed_tokens=1, ms=1.0)


def verdict(of: Task, num_tasks: int = MIN_TASKS, candidate_tokens: int = 10) -> Verdict:
    ones = np.ones(1)
    scores = Scores(ones, np.array([True]), ones, ones, np.zeros(1, np.int64))
    case = Case(task=of, scores=scores, baseline=answer(10), candidate=answer(candidate_tokens))
    return run_regression_test([case] * num_tasks, Margins({"max_kl": 2.0}))


def side(data_dir: Path, words: str, model_sha256: str = "m") -> Side:
    settings = load_settings({"data_dir": data_dir, **read_configuration(words)})
    return Side(settings, data_dir, model_sha256)


def comparison(baseline: Side, candidate: Side, of: Task, max_tokens: int = 64) -> Comparison:
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        suites=Suites([of], {}),
        margins=Margins({}),
        max_tokens=max_tokens,
        seed=1,
    )


def test_a_proof_is_about_exactly_what_the_candidate_loses(tmp_path: Path) -> None:
    exact, lossy = side(tmp_path, ""), side(tmp_path, "kv_format=int8")
    keep_proof(GATES.arm("kv-int8"), comparison(exact, lossy, task()), verdict(task()))
    found = find(tmp_path, "m", {"kv_format": "int8"}, version())
    assert found is not None and found.passed and found.arm == "kv-int8"


@pytest.mark.parametrize(
    ("baseline", "candidate", "model", "sentence"),
    [
        ("kv_format=int8", "kv_format=int8", "m", "the baseline loses something too, by kv_format"),
        ("", "kv_format=int8", "other", "the baseline is another model"),
        ("", "context.compression=prune", "m", "nothing to shorten"),
    ],
)
def test_what_proves_nothing_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    baseline: str,
    candidate: str,
    model: str,
    sentence: str,
) -> None:
    both = comparison(side(tmp_path, baseline), side(tmp_path, candidate, model), task())
    keep_proof(GATES.arm("kv-int8"), both, verdict(task()))
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_candidate_that_was_spoilt_on_purpose_leaves_no_proof(tmp_path: Path) -> None:
    both = comparison(side(tmp_path, ""), side(tmp_path, "kv_format=int8"), task())
    keep_proof(GATES.arm("kv-int8"), replace(both, plant="sign"), verdict(task()))
    assert list(tmp_path.iterdir()) == []


def test_a_title_is_shown_as_it_was_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title = "x[/a].toml beside [b]"
    show(title, comparison(side(tmp_path, ""), side(tmp_path, ""), task()), verdict(task()))
    assert title in capsys.readouterr().out


def test_a_handful_of_tasks_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = comparison(side(tmp_path, ""), side(tmp_path, "kv_format=int8"), task())
    keep_proof(GATES.arm("kv-int8"), both, verdict(task(), MIN_TASKS - 1))
    assert f"{MIN_TASKS - 1} tasks, it takes {MIN_TASKS}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_answers_of_a_token_or_two_prove_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = comparison(side(tmp_path, ""), side(tmp_path, "kv_format=int8"), task(), max_tokens=2)
    keep_proof(GATES.arm("kv-int8"), both, verdict(task()))
    assert "2 tokens at most, it takes 64" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_requires_no_arm_judges_nothing(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_text("")
    result = CliRunner().invoke(app, ["quality", "gate", "--gates", str(tmp_path / "gates.toml")])
    assert result.exit_code == 2 and "no arm is required" in result.output


@pytest.mark.parametrize("candidate_tokens", [9, 11])
def test_other_prompts_can_prove_that_other_files_may_be_shortened(
    tmp_path: Path, candidate_tokens: int
) -> None:
    """Longer ones too: of shortened files more find room."""
    brings = task(Part("def b(): ...\n", "y.py"))
    both = comparison(side(tmp_path, ""), side(tmp_path, "context.compression=prune"), brings)
    keep_proof(GATES.arm("compression"), both, verdict(brings, candidate_tokens=candidate_tokens))
    proved = lossy(both.candidate.settings.model_dump(mode="json"))
    assert proved["context.compression"] == ["prune"]
    assert find(tmp_path, "m", proved, version()) is not None


def test_other_files_that_the_model_is_not_shown_prove_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brings = task(Part("def b(): ...\n", "y.py"))
    both = comparison(side(tmp_path, ""), side(tmp_path, "context.compression=prune"), brings)
    keep_proof(GATES.arm("compression"), both, verdict(brings))
    assert "no prompt is another than without" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_loses_nothing_leaves_no_proof(tmp_path: Path) -> None:
    both = comparison(side(tmp_path, ""), side(tmp_path, "engine.speculation=off"), task())
    keep_proof(GATES.arm("drafts"), both, verdict(task()))
    assert list(tmp_path.iterdir()) == []
