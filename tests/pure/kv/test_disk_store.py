"""Whatever lies in the directory, what is read is what was written, or nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halfline.errors import BadSettings
from halfline.kv import disk_store
from halfline.kv.block_file import BlockHeader
from halfline.kv.disk_store import DiskStore
from halfline.kv.names import BlockNames
from halfline.kv.prefix_index import PrefixIndex, token_blocks

SCOPE = b"s" * 32
ROOM = 1 << 20
TOKENS = [token_blocks([seed] * 16)[0] for seed in range(600)]
DATA = memoryview(bytes(range(200)))
FILE_BYTES = 208 + len(DATA)


def open_store(directory: Path, **changes: object) -> DiskStore:
    options = {"scope": SCOPE, "max_bytes": ROOM} | changes
    return DiskStore(directory, **options)  # type: ignore[arg-type]


def write_chain(store: DiskStore, seeds: list[int], data: memoryview = DATA) -> list[bytes]:
    """Blocks one behind the other; their names."""
    names = [store.names.of(PrefixIndex().root("me"))]
    for seed in seeds:
        name = store.names.behind(names[-1], TOKENS[seed])
        store.write(BlockHeader(name, names[-1], TOKENS[seed], len(data)), data)
        names.append(name)
    store.check()
    return names[1:]


def test_what_was_written_is_read_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first, second = write_chain(store, [1, 2])
    store.close()
    store = open_store(tmp_path)
    assert first in store and second in store
    assert store.read(first, TOKENS[1]) == DATA
    assert store.read(second, TOKENS[2]) == DATA
    store.check()
    store.close()


def test_unknown_blocks_are_not_there(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (name,) = write_chain(store, [1])
    assert store.read(name, TOKENS[2]) is None, "the same name for other tokens"
    assert store.read(b"x" * 32, TOKENS[1]) is None
    assert store.read(name, TOKENS[1]) == DATA, "and nothing was lost by asking"
    store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.integers(0, FILE_BYTES - 1), st.integers(1, 255), st.booleans())
def test_a_file_with_any_byte_changed_or_cut_off_is_never_believed(
    tmp_path: Path, place: int, change: int, cut: bool
) -> None:
    store = open_store(tmp_path)
    (name,) = write_chain(store, [1])
    (path,) = tmp_path.glob("*.kv")
    content = bytearray(path.read_bytes())
    assert len(content) == FILE_BYTES
    if cut:
        del content[place:]
    else:
        content[place] ^= change
    path.write_bytes(content)
    assert store.read(name, TOKENS[1]) is None
    assert not path.exists()
    path.write_bytes(content)
    store.close()
    store = open_store(tmp_path)
    assert store.read(name, TOKENS[1]) is None
    assert not path.exists()
    assert len(store) == 0
    store.check()
    store.close()


def a_block_of_another_scope(directory: Path) -> None:
    store = open_store(directory, scope=b"t" * 32)
    write_chain(store, [1])
    store.close()


def a_block_under_another_name(directory: Path) -> None:
    store = open_store(directory)
    write_chain(store, [1])
    store.close()
    (path,) = directory.glob("*.kv")
    path.rename(directory / f"{'ab' * 16}.kv")


def a_half_written_block(directory: Path) -> None:
    (directory / "abcd.partial").write_bytes(b"hlkv")


def an_empty_file(directory: Path) -> None:
    (directory / f"{'00' * 16}.kv").touch()


def a_longer_file(directory: Path) -> None:
    store = open_store(directory)
    write_chain(store, [1])
    store.close()
    (path,) = directory.glob("*.kv")
    path.write_bytes(path.read_bytes() + b"x")


def a_block_written_with_another_key(directory: Path) -> None:
    store = open_store(directory)
    write_chain(store, [1])
    store.close()
    (directory / "key").write_bytes(b"short")


@pytest.mark.parametrize(
    "leave",
    [
        a_block_of_another_scope,
        a_block_under_another_name,
        a_half_written_block,
        an_empty_file,
        a_longer_file,
        a_block_written_with_another_key,
    ],
    ids=lambda leave: leave.__name__,
)
def test_what_is_not_ours_is_deleted_at_start(tmp_path: Path, leave: Callable[[Path], None]) -> None:
    leave(tmp_path)
    store = open_store(tmp_path)
    assert len(store) == 0 and store.num_bytes == 0
    assert {path.name for path in tmp_path.iterdir()} == {"key", "lock"}
    store.close()


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    open_store(tmp_path).close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_damaged_file_with_the_right_header_is_found_by_its_checksum_whatever_the_key(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    (name,) = write_chain(store, [1])
    store.close()
    (tmp_path / "key").write_bytes(b"k" * 32)
    store = open_store(tmp_path)
    assert name in store
    assert store.read(name, TOKENS[1]) is None
    assert len(store) == 0
    store.close()


def test_the_bound_on_bytes_holds_and_ends_of_prompts_go_before_their_beginnings(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_bytes=4 * FILE_BYTES)
    first, second, third = write_chain(store, [1, 2, 3])
    write_chain(store, [4, 5])
    assert len(store) == 4
    assert third not in store and first in store and second in store
    store.close()


def test_what_was_used_lately_stays(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_bytes=2 * FILE_BYTES)
    (old,) = write_chain(store, [1])
    (newer,) = write_chain(store, [2])
    store.read(old, TOKENS[1])
    write_chain(store, [3])
    assert old in store and newer not in store
    store.close()


def test_a_smaller_bound_is_kept_from_the_start(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    write_chain(store, [1, 2, 3])
    store.close()
    store = open_store(tmp_path, max_bytes=FILE_BYTES)
    assert len(store) == 1
    store.check()
    store.close()


def test_a_block_larger_than_the_bound_is_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_bytes=FILE_BYTES - 1)
    write_chain(store, [1])
    assert len(store) == 0
    store.close()


def test_hits_are_right_with_names_of_eight_bits(tmp_path: Path) -> None:
    store = open_store(tmp_path, name_bytes=1)
    names = {
        seed: write_chain(store, [seed, seed + 1], memoryview(seed.to_bytes(200))) for seed in range(600 - 1)
    }
    found = 0
    for seed, chain in names.items():
        for position, name in enumerate(chain):
            data = store.read(name, TOKENS[seed + position])
            assert data is None or data == seed.to_bytes(200)
            found += data is not None
    assert found == len(store) > 200, "of blocks with equal file names the first stays"
    store.check()
    store.close()


def test_a_ring_of_short_names_can_still_be_evicted(tmp_path: Path) -> None:
    store = open_store(tmp_path, name_bytes=1, max_bytes=8 * FILE_BYTES)
    write_chain(store, list(range(300)))
    assert len(store) <= 8
    store.close()


def test_what_is_no_file_is_passed_over_with_a_line_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    (name,) = write_chain(store, [1])
    store.close()
    (tmp_path / f"{'ab' * 16}.kv").mkdir()
    (tmp_path / f"{'cd' * 16}.partial").mkdir()
    os.mkfifo(tmp_path / f"{'ef' * 16}.kv")
    (tmp_path / f"{'01' * 16}.kv").symlink_to(tmp_path / "nowhere")
    num_entries = len(list(tmp_path.iterdir()))
    store = open_store(tmp_path)
    assert store.read(name, TOKENS[1]) == DATA
    assert len(caplog.records) == 4 and len(list(tmp_path.iterdir())) == num_entries
    store.close()
    (tmp_path / "key").unlink()
    store = open_store(tmp_path)
    assert len(store) == 0
    store.close()


def test_a_file_that_can_neither_be_read_nor_deleted_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, scope: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    open_store(tmp_path).close()
    (tmp_path / f"{'ab' * 16}.kv").touch()
    monkeypatch.setattr(disk_store, "_header_of", refuse)
    store = open_store(tmp_path)
    assert len(store) == 0 and "passed over" in caplog.text
    store.close()


def test_a_directory_has_one_process_at_a_time(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(BadSettings, match=f"another server uses {tmp_path}"):
        open_store(tmp_path)
    store.close()
    open_store(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSettings, match="cannot be kept"):
        open_store(tmp_path / "file" / "kv")


def test_only_the_owner_can_read_what_is_there(tmp_path: Path) -> None:
    store = open_store(tmp_path / "kv")
    write_chain(store, [1])
    assert (tmp_path / "kv").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kv").iterdir()} == {0o600}
    store.close()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*parts: object) -> list[bytes]:
        raise OSError(28, "No space left on device")

    store = open_store(tmp_path)
    monkeypatch.setattr(disk_store, "pack_block", full)
    with pytest.raises(OSError, match="No space left"):
        write_chain(store, [1])
    assert {path.name for path in tmp_path.iterdir()} == {"key", "lock"}
    store.check()
    store.close()


def test_names_depend_on_key_scope_namespace_past_and_tokens() -> None:
    def name(
        key: bytes = b"k", scope: bytes = SCOPE, namespace: str = "me", past: int = 1, tokens: int = 2
    ) -> bytes:
        index, names = PrefixIndex(), BlockNames(key, scope)
        node = index.publish(index.root(namespace), TOKENS[past], 0)
        return names.of(index.publish(node, TOKENS[tokens], 1))

    assert name() == name()
    others = [name(b"l"), name(scope=b"t" * 32), name(namespace="you"), name(past=3), name(tokens=3)]
    assert len({name(), *others}) == 6
