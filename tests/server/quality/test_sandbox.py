"""Programs pass, fail or run out of time, and what they reach for is not there."""

import os
from pathlib import Path

import pytest

from halfline.quality.infilling import sandbox
from halfline.quality.infilling.sandbox import Limits, run_program

_QUICK = Limits(wall_s=20.0, cpu_s=1, memory_bytes=1 << 29, file_bytes=1 << 16)


@pytest.fixture(params=["namespaces", "none"], autouse=True)
def outside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with the system's namespaces, where it has them, and without."""
    if request.param == "none":
        monkeypatch.setattr(sandbox, "_outside", tuple)


def test_a_program_that_comes_to_its_end_passes() -> None:
    assert run_program("import math\nprint('token?')\nassert math.gcd(4, 6) == 2") == "passed"


@pytest.mark.parametrize(
    "program", ["assert 1 == 2", "def f(:", "import sys; sys.exit(0)", "import os; os._exit(0)", "\udc80"]
)
def test_a_program_that_does_not_come_to_its_end_fails(program: str) -> None:
    assert run_program(program) == "failed"


def test_an_infinite_loop_ends_when_its_processor_time_does() -> None:
    assert run_program("while True: pass", _QUICK) == "timeout"


def test_one_that_sleeps_ends_when_its_time_does() -> None:
    assert run_program("import time\ntime.sleep(60)", Limits(wall_s=1.0)) == "timeout"


def test_more_memory_than_allowed_fails() -> None:
    assert run_program("x = bytearray(1 << 30)", _QUICK) == "failed"
    assert run_program("x = []\nwhile True: x.append(bytes(1 << 20))", _QUICK) == "failed"


@pytest.mark.parametrize(
    "program",
    [
        "import os\nwhile True: os.fork()",
        "import subprocess\nsubprocess.run(['true'])",
        "import os\nos.system('true')",
        "import os\nos.posix_spawn('/bin/true', ['true'], {})",
        "import os\nos.execv('/bin/true', ['true'])",
        "import _posixsubprocess",
        "import multiprocessing",
        "import ctypes",
        "import os\nos.kill(os.getppid(), 9)",
    ],
)
def test_no_process_is_started_or_harmed(program: str) -> None:
    assert run_program(program, _QUICK) == "failed"


@pytest.mark.parametrize("module", ["socket", "_socket", "urllib.request", "http.client", "asyncio"])
def test_there_is_no_network(module: str) -> None:
    assert run_program(f"import {module}", _QUICK) == "failed"


def test_files_are_written_in_its_own_folder_only_and_not_large_ones(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for reach in (
        f"open({str(victim)!r}, 'w').write('yours')",
        f"open({os.path.relpath(victim, '/')!r}, 'a')",
        f"import os; os.open({str(victim)!r}, os.O_WRONLY | os.O_TRUNC)",
        f"import os; os.remove({str(victim)!r})",
        f"import os; os.rename({str(victim)!r}, 'here')",
        f"import os; os.symlink({str(tmp_path)!r}, 'way'); open('way/victim', 'w')",
        f"import os; os.truncate({str(victim)!r}, 0)",
        f"import shutil; shutil.rmtree({str(tmp_path)!r})",
        f"import pathlib; pathlib.Path({str(victim)!r}).chmod(0)",
        f"import os; os.open('victim', os.O_WRONLY, dir_fd=os.open({str(tmp_path)!r}, os.O_RDONLY))",
        f"import os; os.mkfifo({str(tmp_path / 'pipe')!r})",
        f"import posix; posix.mknod({str(tmp_path / 'node')!r})",
    ):
        assert run_program(reach, _QUICK) == "failed", reach
    assert victim.read_text() == "mine" and os.listdir(tmp_path) == ["victim"]
    assert run_program("open('own', 'w').write('x'); assert open('own').read() == 'x'", _QUICK) == "passed"
    assert run_program("open('own', 'w').write('x' * (1 << 20))", _QUICK) == "failed"
