"""Runs a Python program that nobody has read, and says whether it came to its end.

What holds it, from the outside in:

- where the system allows it, namespaces of its own (`unshare`): no network but a loopback that is down, and no
  process outlives the first one
- the first process and its whole group are killed when the time is over
- limits of the system: processor time, address space, size of files, open files, and no child for anyone but root
- inside the interpreter an audit hook that refuses processes, sockets, `ctypes`, signals and every change of a file
  outside the program's own folder, which is deleted afterwards

It contains mistakes, and code that reaches for the obvious; somebody who wants out of a Python interpreter gets out of
the hook, and then has what is left of the list above. It may read what the user may read.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Verdict = Literal["passed", "failed", "timeout"]

_NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`wall_s` is for what sleeps, `cpu_s` for what computes; both end it as a timeout."""

    wall_s: float = 30.0
    cpu_s: int = 5
    memory_bytes: int = 1 << 30
    file_bytes: int = 1 << 20


def run_program(program: str, limits: Limits | None = None) -> Verdict:
    """ "passed" only if the last line was reached. Takes about 50 ms and at most the limits' seconds."""
    limits = limits or Limits()
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="halfline-") as folder:
        command = [*_outside(), sys.executable, "-I", "-S", "-c", _LAUNCHER]
        command += [folder, str(limits.cpu_s), str(limits.memory_bytes), str(limits.file_bytes)]
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(f"{token}\n{program}".encode(errors="surrogatepass"), limits.wall_s)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            _end(process)
    if said.decode(errors="replace") == token:
        return "passed"
    return "timeout" if process.returncode in _OUT_OF_TIME else "failed"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The whole session, also children that the first process has left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


@cache
def _outside() -> tuple[str, ...]:
    """The command that makes namespaces, where there is one and it works."""
    if shutil.which(_NAMESPACES[0]) is None:
        return ()
    tried = subprocess.run([*_NAMESPACES, "true"], capture_output=True, check=False)
    return _NAMESPACES if tried.returncode == 0 else ()


# What the launcher exits with when SIGXCPU comes, and the kill a second later, if it came to that; through `unshare` a
# signal is 128 and its number.
_OUT_OF_TIME = (124, -signal.SIGKILL, 128 + signal.SIGKILL)

_LAUNCHER = (Path(__file__).parent / "launcher.py").read_text("utf-8")
