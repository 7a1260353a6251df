"""What a result must say about where it was measured, so that it can be believed or repeated."""

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, object]:
    """Date, machine and versions; no names of hosts, users or folders."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "num_cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "halfline": version("halfline"),
        "command": command_line(sys.argv),
    }


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the processor calls itself, with its family and model where the system tells: names alone say little."""
    if not cpuinfo.exists():
        return platform.processor() or platform.machine()
    facts: dict[str, str] = {}
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.machine())
    return f"{name}, family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else name


def command_line(arguments: list[str]) -> str:
    """Without the folders of this machine."""
    return " ".join(Path(word).name if word.startswith("/") else word for word in arguments)
