"""`halfline replay` as a user types it: servers of its own, tables, files, and one line of JSON at the end."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Guarded = Callable[..., "subprocess.CompletedProcess[str]"]

_TYPED = "def double(x):\n    return 2 * x\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "typed.json"
    transactions = [{"patches": [[i, 0, character]]} for i, character in enumerate(_TYPED)]
    file.write_text(json.dumps({"startContent": "", "endContent": _TYPED, "txns": transactions}))
    return file


def test_keystrokes_are_answered_counted_and_kept(
    guarded: Guarded, trace: Path, tmp_path: Path, embedded_model: Path
) -> None:
    done = guarded(
        *("replay", str(trace), "--from", "15", "--keystrokes", "6", "--threads", "1"),
        *("--model", str(embedded_model), "--results", str(tmp_path / "results")),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])["groups"]["shorter files"]["halfline"]
    assert summary["num_keystrokes"] == 6 and summary["unanswered"] == 0.0
    assert summary["tokens"]["num_cold"] == 1
    assert summary["quality"]["num_judged"] == 6
    (file,) = (tmp_path / "results").glob("replay-squeezed-1-*.json")
    kept = json.loads(file.read_text())
    assert [row[1] for row in kept["asked"]] == list(range(15, 21))
    assert len(kept["answers"]["halfline"]) == 6
    assert file.with_suffix(".png").exists()


def test_everything_clever_on_and_off_gives_the_same_text(
    guarded: Guarded, trace: Path, tmp_path: Path, embedded_model: Path
) -> None:
    done = guarded(
        *("replay", str(trace), "--from", "15", "--keystrokes", "8", "--threads", "1", "--check-equal"),
        *("--model", str(embedded_model), "--results", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"keystrokes": 8, "differing": 0}
