"""`halfline bench engine` from its command line, with a llama.cpp that only prints numbers."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app

BENCH = """#!/bin/sh
case "$*" in
  *--version*) echo "version: 7 (abcdef)" ;;
  *"-d 512"*) echo '{"n_prompt": 0, "n_gen": 16, "avg_ts": 3.0}' ;;
  *) echo '{"n_prompt": 512, "n_gen": 0, "avg_ts": 1.0}'; echo '{"n_prompt": 0, "n_gen": 16, "avg_ts": 2.0}' ;;
esac
"""
BATCHED = """#!/bin/sh
echo '{"speed_tg": 4.0}'
"""
QUANTIZE = """#!/bin/sh
cp "$2" "$3"
"""


@pytest.fixture
def llama_bin(tmp_path: Path) -> Path:
    folder = tmp_path / "llama"
    folder.mkdir()
    for name, code in (
        ("llama-bench", BENCH),
        ("llama-batched-bench", BATCHED),
        ("llama-quantize", QUANTIZE),
    ):
        (folder / name).write_text(code)
        (folder / name).chmod(0o755)
    return folder


def test_one_quick_run_prints_tables_keeps_the_raw_numbers_and_ends_with_json(
    embedded_model: Path, llama_bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALFLINE_CACHE_DIR", str(tmp_path / "cache"))
    results = tmp_path / "results"
    arguments = ["bench", "engine", "--model", str(embedded_model), "--quick"]
    arguments += ["--llama-bin", str(llama_bin), "--results", str(results)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output

    summary = json.loads(result.stdout.splitlines()[-1])
    assert {name: found["best_peer"] for name, found in summary["workloads"].items()} == dict.fromkeys(
        ("prefill", "decode", "decode_deep", "parallel"), "llama.cpp Q4_1"
    )
    decode = summary["workloads"]["decode"]
    assert decode["ratio"]["median"] == pytest.approx(decode["tokens_per_s"]["median"] / 2.0, abs=1e-3)
    assert decode["share_of_limit"]["median"] == pytest.approx(
        decode["tokens_per_s"]["median"] / decode["at_most"]["median"], abs=1e-3
    )
    assert "decode 16 @ 512" in result.stdout

    raw = json.loads(next(results.glob("engine-Q4_1-*.json")).read_text())
    assert raw["summary"] == summary
    assert raw["peer_versions"]["llama.cpp"] == "version: 7 (abcdef)"
    assert [len(raw["rounds"]), len(raw["limits"])] == [1, 1]
    assert {"load_before", "load_after", "rates"} == raw["rounds"][0].keys()
    assert len(raw["rounds"][0]["rates"]) == 5  # ours, and llama.cpp in four formats
    assert next(results.glob("*.png")).stat().st_size > 10_000


def test_a_peer_that_fails_is_one_sentence(embedded_model: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["bench", "engine", "--model", str(embedded_model), "--quick", "--llama-bin", str(tmp_path)]
    )
    assert result.exit_code == 2
    assert "llama-bench" in result.output
