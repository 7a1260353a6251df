"""`halfline bench kv` from its command line, once around."""

import json
from pathlib import Path

from typer.testing import CliRunner

from halfline.cli.main import app


def test_one_run_prints_tables_keeps_the_raw_numbers_and_ends_with_json(
    embedded_model: Path, tmp_path: Path
) -> None:
    arguments = ["bench", "kv", "--model", str(embedded_model), "--rounds", "1", "--results", str(tmp_path)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output

    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["reuse_gain"]["1536"] > 5, "three of 1536 tokens were computed"
    assert summary["crowd_finished"] == {"real model": 256, "accounts alone": 256}
    assert "slabs of" in result.stdout
    assert list(summary["int8_to_f16_decode"]) == ["512", "2048", "4096"]
    assert summary["step_ms_while_somebody_waits"]["p50"] > 0

    (path,) = tmp_path.glob("kv-*.json")
    kept = json.loads(path.read_text())
    assert len(kept["hit_path"]["first"]) == 100
    for crowd in kept["crowds"].values():
        assert 200 < crowd["peak_held_blocks"] <= crowd["num_blocks"], "all but at once"
