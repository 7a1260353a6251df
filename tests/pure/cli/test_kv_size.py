"""How large the KV cache becomes when nobody says, and when it is said."""

from pathlib import Path

import pytest

from halfline.cli.kv_size import blocks_in, default_kv_bytes
from halfline.errors import BadSettings


@pytest.mark.parametrize(("available_kib", "expected"), [(400_000, 400_000 * 1024 // 4), (64 << 20, 1 << 30)])
def test_it_is_a_quarter_of_the_available_memory_and_at_most_a_gibibyte(
    tmp_path: Path, available_kib: int, expected: int
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 9999999999 kB\nMemAvailable:  {available_kib} kB\n")
    assert default_kv_bytes(meminfo) == expected


def test_a_system_that_does_not_say_gets_a_gibibyte(tmp_path: Path) -> None:
    assert default_kv_bytes(tmp_path / "absent") == 1 << 30


def test_only_whole_blocks_count_and_too_few_are_refused() -> None:
    assert blocks_in(1099, 100) == 10
    with pytest.raises(BadSettings, match="at least 400"):
        blocks_in(399, 100)
