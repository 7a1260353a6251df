"""What llama.cpp's programs print, and what becomes of a program that fails."""

from pathlib import Path

import pytest

from halfline.bench.peers.failed import PeerFailed
from halfline.bench.peers.llama_cpp import batched_rate, bench_rates, run

BENCH = """\
warning: asserts enabled, performance may be affected
{"build_commit": "b1d4f2a", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 471.25, "stddev_ts": 0.0}
{"build_commit": "b1d4f2a", "n_prompt": 0, "n_gen": 64, "n_depth": 0, "avg_ts": 130.5, "stddev_ts": 0.0}
"""
BATCHED = (
    '{"n_kv_max": 2624, "pp": 128, "tg": 32, "pl": 16, "n_kv": 2560, "t_pp": 4.0, "speed_pp": 512.0,'
    ' "t_tg": 2.0, "speed_tg": 256.0, "t": 6.0, "speed": 426.7}\n'
)


def test_the_rates_of_llama_bench_are_told_apart_by_what_was_run() -> None:
    assert bench_rates(BENCH) == {"prefill": 471.25, "decode": 130.5}
    assert bench_rates(BENCH.splitlines()[2]) == {"decode": 130.5}


def test_the_rate_of_llama_batched_bench_is_that_of_all_sequences_decoding() -> None:
    assert batched_rate(BATCHED) == 256.0


def test_a_program_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "llama-bench"
    program.write_text("#!/bin/sh\necho 'no such model' >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(PeerFailed, match=r"(?s)llama-bench -m x failed.*exit code 3.*no such model"):
        run(program, ["-m", "x"])


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="llama-bench"):
        run(tmp_path / "llama-bench", [])


def test_libraries_are_looked_for_beside_the_program(tmp_path: Path) -> None:
    program = tmp_path / "llama-bench"
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH"\n')
    program.chmod(0o755)
    assert run(program, []).strip().split(":")[0] == str(tmp_path)
