"""A file of answers that was damaged, cut short, written by another version or cannot be written: less is found, and
never anything else than what was put.
"""

import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from halfline.cache.memory import Kept
from halfline.cache.sqlite_tier import RETRY_S, VERSION, SqliteTier

AsNobody = Callable[[], AbstractContextManager[None]]


def opened(path: Path, max_bytes: int = 1 << 20, max_age_s: float = 1e9) -> SqliteTier:
    tier = SqliteTier(path, max_bytes, max_age_s)
    tier.open()
    tier.refresh()
    return tier


def entries(count: int, size: int = 100) -> dict[bytes, Kept]:
    return {
        b"key %05d" % number: Kept(Random(number).randbytes(size), float(number)) for number in range(count)
    }


def filled(path: Path, count: int = 200, size: int = 100) -> dict[bytes, Kept]:
    tier, put = opened(path, max_bytes=1 << 28), entries(count, size)
    tier.put(list(put.items()), [], 1000.0)
    tier.close()
    return put


def found(path: Path, put: dict[bytes, Kept]) -> int:
    """How many of the entries are found as they were put; none is found otherwise. What is put then is found too."""
    tier = opened(path)
    got = {key: tier.get(key, 1000.0) for key in put}
    assert all(kept in (None, put[key]) for key, kept in got.items())
    new = (b"new key", Kept(b"new value", 0.0))
    tier.put([new], [], 1000.0)
    tier.refresh()
    assert tier.get(b"new key", 1000.0) == new[1] and tier.may_hold(b"new key")
    tier.check()
    tier.close()
    return sum(kept is not None for kept in got.values())


def test_what_was_put_is_found_after_the_file_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "answers.sqlite"
    put = filled(path)
    assert found(path, put) == len(put)
    assert path.stat().st_mode & 0o077 == 0, "it is for its owner alone"


def test_of_a_damaged_file_nothing_wrong_is_found(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    random = Random(3)
    put = filled(path)
    whole = path.read_bytes()
    for _ in range(12):
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 20, 400))):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        found(path, put)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_of_a_file_cut_short_nothing_wrong_is_found(tmp_path: Path, share: float) -> None:
    path = tmp_path / "answers.sqlite"
    put = filled(path)
    os.truncate(path, int(path.stat().st_size * share))
    found(path, put)


def test_damage_that_comes_while_the_file_is_open_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    put = filled(path, 200, 1 << 15)  # more than SQLite keeps in memory
    tier = opened(path, max_bytes=1 << 28)
    path.write_bytes(b"no database " * 1000)
    for _ in range(3):
        assert all(tier.get(key, 1000.0) in (None, kept) for key, kept in put.items())
        tier.put(list(put.items())[:5], [], 1000.0)
        tier.refresh()
    assert tier.num_failures > 0
    tier.close()


def test_a_damaged_file_that_cannot_be_replaced_holds_nothing(as_nobody: AsNobody) -> None:
    with TemporaryDirectory(dir="/tmp") as directory:
        path = Path(directory) / "answers.sqlite"
        path.write_bytes(b"no database " * 1000)
        Path(directory).chmod(0o555)
        with as_nobody():
            tier = opened(path)
            tier.put(list(entries(3).items()), [], 0.0)
            assert tier.get(b"key 00000", 0.0) is None and tier.num_failures > 0
            tier.close()
        Path(directory).chmod(0o755)


def test_a_value_changed_behind_our_back_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    put = filled(path, 3)
    with sqlite3.connect(path) as connection:
        connection.execute("update answers set value = (select value from answers limit 1 offset 1)")
    connection.close()
    assert found(path, put) == 1, "the one that stands under its own key"


@pytest.mark.parametrize("change", ["stored_at = 'x'", "stored_at = x'00'", "value = 'text'", "value = 5"])
def test_a_column_that_holds_something_else_is_a_damaged_value(tmp_path: Path, change: str) -> None:
    path = tmp_path / "answers.sqlite"
    put = filled(path, 3)
    with sqlite3.connect(path) as connection:
        connection.execute(f"update answers set {change} where sequence < 3")
    connection.close()
    tier = opened(path)
    assert tier.newest(1 << 20) == [(b"key 00002", put[b"key 00002"])]
    tier.close()
    assert found(path, put) == 1


def test_a_key_that_is_none_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    put = filled(path, 3)
    with sqlite3.connect(path) as connection:
        connection.execute("update answers set key = 5 where sequence = 1")
    connection.close()
    assert found(path, put) == 2


@pytest.mark.parametrize("version", [VERSION - 2, VERSION + 1], ids=["older", "newer"])
def test_a_file_of_another_version_is_begun_anew(tmp_path: Path, version: int) -> None:
    path = tmp_path / "answers.sqlite"
    put = filled(path, 3)
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma user_version = {version}")
    connection.close()
    assert found(path, put) == 0


def garbage(path: Path) -> None:
    path.write_bytes(Random(1).randbytes(50_000))


def zeros(path: Path) -> None:
    path.write_bytes(bytes(8192))


@pytest.mark.parametrize("make", [garbage, zeros, Path.touch])
def test_a_file_that_never_was_one_of_ours_is_begun_anew(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "answers.sqlite")
    assert found(tmp_path / "answers.sqlite", entries(1)) == 0


def tables_of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table answers (question, answer)")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_a_full_device(path: Path) -> None:
    path.symlink_to("/dev/full")


@pytest.mark.parametrize(
    "make", [tables_of_another_program, Path.mkdir, os.mkfifo, link_to_itself, link_to_a_full_device]
)
def test_what_cannot_be_a_file_of_ours_holds_nothing_and_stays(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "answers.sqlite"
    make(path)
    tier = opened(path)
    tier.put(list(entries(3).items()), [b"x"], 0.0)
    assert tier.get(b"key 00000", 0.0) is None and tier.newest(1 << 20) == [] and tier.num_failures == 1
    tier.check()
    tier.close()
    assert [each.name for each in tmp_path.iterdir()] == ["answers.sqlite"]


def test_a_directory_that_cannot_be_had_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    tier = opened(tmp_path / "file" / "answers.sqlite")
    tier.put(list(entries(3).items()), [b"x"], 0.0)
    assert tier.get(b"key 00000", 0.0) is None and tier.num_failures == 1
    tier.check()
    tier.close()


def test_a_file_that_cannot_be_had_at_first_is_used_once_it_can(tmp_path: Path) -> None:
    now = [0.0]
    folder = tmp_path / "folder"
    folder.write_text("not yet a directory")
    tier = SqliteTier(folder / "answers.sqlite", 1 << 20, 1e9, clock=lambda: now[0])
    tier.open()
    folder.unlink()
    put = entries(3)
    tier.refresh()
    tier.put(list(put.items()), [], 0.0)
    assert tier.get(b"key 00000", 0.0) is None, "it is not tried at every turn"
    now[0] = RETRY_S
    tier.refresh()
    tier.put(list(put.items()), [], 0.0)
    tier.refresh()
    assert all(tier.get(key, 0.0) == kept and tier.may_hold(key) for key, kept in put.items())
    assert tier.num_failures == 1
    tier.close()


def test_a_file_that_may_only_be_read_holds_nothing_and_breaks_nothing(as_nobody: AsNobody) -> None:
    with TemporaryDirectory(dir="/tmp") as directory:
        path = Path(directory) / "answers.sqlite"
        put = filled(path, 3)
        path.chmod(0o444)
        Path(directory).chmod(0o555)
        with as_nobody():
            tier = opened(path)
            tier.put(list(put.items()), [], 0.0)
            assert all(tier.get(key, 0.0) in (None, kept) for key, kept in put.items())
            assert tier.num_failures > 0
            tier.close()
        Path(directory).chmod(0o755)


def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    tier = opened(path, max_bytes=1 << 16)
    first = entries(10)
    tier.put(list(first.items()), [], 0.0)
    # The file's bound in pages is where SQLite says that the disk is full.
    tier.put([(b"large", Kept(bytes(1 << 20), 0.0))], [], 0.0)
    assert tier.num_failures == 1 and tier.get(b"large", 0.0) is None
    assert all(tier.get(key, 0.0) == kept for key, kept in first.items())
    tier.put([(b"small", Kept(b"s", 0.0))], [], 0.0)
    assert tier.get(b"small", 0.0) is not None
    tier.check()
    tier.close()


def test_a_disk_that_takes_no_byte_more_keeps_what_was_there(tmp_path: Path) -> None:
    tier = opened(tmp_path / "answers.sqlite")
    first = entries(10)
    tier.put(list(first.items()), [], 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, hard))  # every file's size, so writes are refused
    try:
        for _ in range(3):
            tier.put([(b"another", Kept(bytes(1 << 15), 0.0))], [], 0.0)
        assert all(tier.get(key, 0.0) == kept for key, kept in first.items())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert tier.num_failures == 3 and tier.get(b"another", 0.0) is None
    tier.put([(b"small", Kept(b"s", 0.0))], [], 0.0)
    assert tier.get(b"small", 0.0) is not None
    tier.check()
    tier.close()
    assert found(tmp_path / "answers.sqlite", first) == 10


def test_the_file_keeps_its_bound_and_what_was_used_last(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    tier = opened(path, max_bytes=50_000)
    put = entries(1024)
    for now, (key, kept) in enumerate(put.items()):
        tier.put([(key, kept)], [b"key 00000"], float(now))
    assert tier.get(b"key 00000", 1024.0) is not None, "used all along"
    assert tier.get(b"key 00001", 1024.0) is None
    assert tier.get(b"key 01023", 1024.0) is not None
    assert path.stat().st_size < 3 * 50_000
    newest = tier.newest(1000)
    assert newest[0][0] in (b"key 00000", b"key 01023") and len(newest) < 10
    tier.close()


def test_what_the_file_forgot_is_not_known_for_ever(tmp_path: Path) -> None:
    tier = opened(tmp_path / "answers.sqlite", max_bytes=1 << 14)
    put = {Random(number).randbytes(32): kept for number, kept in enumerate(entries(4096).values())}
    for start in range(0, len(put), 256):
        tier.put(list(put.items())[start : start + 256], [], float(start))
        tier.refresh()
    known = [key for key in put if tier.may_hold(key)]
    assert len(known) < 1200, "of 4096"
    assert 100 < sum(tier.get(key, 0.0) == put[key] for key in known) < 400
    tier.close()


def test_what_is_too_old_is_not_found(tmp_path: Path) -> None:
    tier = opened(tmp_path / "answers.sqlite", max_age_s=10.0)
    tier.put([(b"key", Kept(b"value", 100.0))], [], 100.0)
    assert tier.get(b"key", 110.0) is not None
    assert tier.get(b"key", 111.0) is None
    tier.close()


def test_what_was_put_while_the_clock_was_wrong_is_neither_found_nor_kept(tmp_path: Path) -> None:
    tier = opened(tmp_path / "answers.sqlite", max_age_s=10.0)
    tier.put([(b"key", Kept(b"value", 1e9))], [], 1e9)
    assert tier.get(b"key", 1e9) is not None and tier.get(b"key", 100.0) is None
    tier.put(list(entries(300).items()), [], 300.0)  # so many that it looks at the file
    assert tier.get(b"key", 1e9) is None
    tier.close()


def write_and_read(path: Path, own: int, seconds: float) -> tuple[int, int]:
    """Put entries of one's own until the time is up, and look for them: how many there were, and how many failed."""
    tier = opened(path, max_bytes=1 << 28)
    end, number, num_lost = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        keys = [b"%d %d" % (own, number + each) for each in range(5)]
        tier.put([(key, Kept(key * 3, 0.0)) for key in keys], keys[:1], float(number))
        number += 5
        key = b"%d %d" % (own, Random(number).randrange(number))
        kept = tier.get(key, 0.0)
        num_lost += kept is None or kept.value != key * 3
    num_failed = num_lost + tier.num_failures
    tier.close()
    return number, num_failed


def put_for_ever(path: Path) -> None:
    tier = opened(path, max_bytes=1 << 28)
    for number in range(1 << 30):
        tier.put([(b"%d" % number, Kept(b"%d" % number * 50, 0.0))], [], 0.0)
        if number == 0:
            print("begun", flush=True)


def another_process(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def share_one_file(path: Path, seconds: float) -> None:
    writers = [another_process("share", path, own, seconds) for own in range(2)]
    results = [json.loads(writer.communicate(timeout=seconds + 60)[0]) for writer in writers]
    assert all(num_failed == 0 and number > 0 for number, num_failed in results)
    tier = opened(path, max_bytes=1 << 28)
    connection = sqlite3.connect(path)
    (count,) = connection.execute("select count(*) from answers").fetchone()
    connection.close()
    assert count == sum(number for number, _ in results), "no entry is lost"
    tier.check()
    tier.close()


def test_two_processes_share_one_file_and_lose_nothing(tmp_path: Path) -> None:
    share_one_file(tmp_path / "answers.sqlite", 1.0)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_two_processes_share_one_file_for_ten_minutes(tmp_path: Path) -> None:
    share_one_file(tmp_path / "answers.sqlite", 600.0)


def test_a_process_killed_while_it_writes_leaves_a_file_that_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    process = another_process("put", path)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.05)
    process.kill()
    process.communicate()
    tier = opened(path, max_bytes=1 << 28)
    tier.check()
    number = 0
    while (kept := tier.get(b"%d" % number, 0.0)) is not None:
        assert kept.value == b"%d" % number * 50
        number += 1
    assert number > 0 and tier.num_failures == 0
    tier.close()


if __name__ == "__main__":
    if sys.argv[1] == "share":
        print(json.dumps(write_and_read(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
    else:
        put_for_ever(Path(sys.argv[2]))
