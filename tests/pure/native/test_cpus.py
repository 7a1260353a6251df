"""CPUs we may use, from made-up system folders."""

import os
from pathlib import Path

import pytest

from halfline.native.cpus import usable_cpus

ALLOWED = len(os.sched_getaffinity(0))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_quota_all_allowed_cpus_count(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) == ALLOWED
    write(tmp_path / "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert usable_cpus(tmp_path) == ALLOWED


@pytest.mark.parametrize("quota, expected", [(50_000, 1), (100_000, 1), (100_000 * 1000, ALLOWED)])
def test_a_quota_cuts_but_leaves_one(tmp_path: Path, quota: int, expected: int) -> None:
    write(tmp_path / "sys/fs/cgroup/cpu.max", f"{quota} 100000\n")
    assert usable_cpus(tmp_path) == expected


def test_the_older_kernel_interface_is_read_too(tmp_path: Path) -> None:
    write(tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n")
    write(tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert usable_cpus(tmp_path) == 1
    write(tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert usable_cpus(tmp_path) == ALLOWED
