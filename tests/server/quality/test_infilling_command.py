"""`halfline quality infilling` as a user types it: two arms over a few holes, and one line of JSON at the end."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Guarded = Callable[..., "subprocess.CompletedProcess[str]"]

_DATA = Path(__file__).parents[3] / "bench" / "data"


def test_two_arms_are_compared_and_a_run_goes_on_from_its_record(
    guarded: Guarded, tmp_path: Path, embedded_model: Path
) -> None:
    record = tmp_path / "record.jsonl"
    command = ("quality", "infilling", "--suite", "single-line", "--limit", "2", "--max-tokens", "8")
    arms = ("--baseline", "engine.speculation=off", "--candidate", "engine.speculation=auto")
    rest = ("--data", str(_DATA), "--record", str(record), "--model", str(embedded_model))
    done = guarded(*command, *arms, *rest)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["exact"]["baseline"] == found["exact"]["candidate"]  # drafts change no answer
    assert len(record.read_text().splitlines()) == 4
    again = guarded(*command, *rest, "--baseline", "engine.speculation=off")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["exact"] == found["exact"]["baseline"]
    assert len(record.read_text().splitlines()) == 4
