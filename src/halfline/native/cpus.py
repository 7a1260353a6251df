"""How many CPUs this process may really use."""

import os
from pathlib import Path


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs the scheduler lets us on, cut to the container's quota, at least one.

    `root` is where /proc and /sys are looked for.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(root)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _quota(root: Path) -> float | None:
    """CPUs' worth of time per period; None when unlimited or when this system has no such notion."""
    try:
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    folder = root / "sys/fs/cgroup/cpu"
    try:
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        return quota_us / int((folder / "cpu.cfs_period_us").read_text()) if quota_us > 0 else None
    except (OSError, ValueError):
        return None
