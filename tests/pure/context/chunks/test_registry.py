"""A chunk is tokenised once: in this process, after a restart, for each vocabulary; and whatever the disk does, its
tokens are right.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from halfline.context.chunks.chunk_file import ChunkFile
from halfline.context.chunks.registry import ChunkRegistry, id_of

MUCH = 1 << 20


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "chunks.sqlite"


def opened(path: Path, max_bytes: int = MUCH) -> ChunkRegistry:
    return ChunkRegistry(MUCH, ChunkFile(path, max_bytes))


def fill(path: Path, num_chunks: int = 5) -> None:
    registry = opened(path)
    for number in range(num_chunks):
        registry.tokens(f"chunk {number}", "v", letters, "file")
    registry.close()


def all_right(registry: ChunkRegistry, num_chunks: int = 5) -> int:
    """How many had to be tokenised."""
    before = registry.num_tokenised
    for number in range(num_chunks):
        text = f"chunk {number}"
        assert registry.tokens(text, "v", letters, "file") == tuple(letters(text))
    return registry.num_tokenised - before


def test_a_chunk_is_tokenised_once_and_its_uses_are_counted() -> None:
    registry = ChunkRegistry(MUCH)
    for _ in range(3):
        assert registry.tokens("ab", "v", letters, "head") == (97, 98)
    row = registry.row(id_of("ab"))
    assert row is not None
    assert (registry.num_tokenised, row.num_uses, row.kind, row.vocabularies) == (1, 3, "head", ["v"])
    assert registry.row(id_of("ba")) is None


def test_each_vocabulary_has_its_own_tokens_in_one_row() -> None:
    registry = ChunkRegistry(MUCH)
    assert registry.tokens("ab", "v", letters, "file") == (97, 98)
    assert registry.tokens("ab", "w", lambda text: [1], "file") == (1,)
    (row,) = registry.rows()
    assert (row.vocabularies, row.num_uses) == (["v", "w"], 2)


def test_what_cannot_be_tokenised_leaves_nothing_behind() -> None:
    registry = ChunkRegistry(MUCH)

    def refuses(text: str) -> list[int]:
        raise ValueError(text)

    with pytest.raises(ValueError, match="ab"):
        registry.tokens("ab", "v", refuses, "file")
    assert list(registry.rows()) == []


def test_memory_is_bounded_and_the_latest_used_stay() -> None:
    registry = ChunkRegistry(5_000)
    for number in range(100):
        registry.tokens("first", "v", letters, "file")
        registry.tokens(f"chunk {number}", "v", letters, "file")
    assert sum(row.num_bytes for row in registry.rows()) <= 5_000
    assert registry.row(id_of("first")) is not None
    assert registry.row(id_of("chunk 5")) is None


def test_after_a_restart_nothing_is_tokenised_again(path: Path) -> None:
    fill(path)
    registry = opened(path)
    assert all_right(registry) == 0
    row = registry.row(id_of("chunk 3"))
    assert row is not None
    assert (row.num_uses, row.kind) == (2, "file")
    registry.close()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "harm",
    [
        *("garbage", "truncated", "another version", "a damaged value", "an old table"),
        *("text for tokens", "a number for tokens", "a blob for a name", "no count of uses"),
    ],
)
def test_a_file_that_is_not_right_costs_what_was_in_it_and_is_begun_anew(path: Path, harm: str) -> None:
    fill(path)
    if harm == "garbage":
        path.write_bytes(b"no database" * 1000)
    elif harm == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        statement = {
            "another version": "pragma user_version = 9",
            "a damaged value": "update chunk_tokens set tokens = zeroblob(length(tokens))",
            "text for tokens": "update chunk_tokens set tokens = 'text'",
            "a number for tokens": "update chunk_tokens set tokens = 5",
            "a blob for a name": "update chunk_tokens set vocabulary = x'00ff'",
            "no count of uses": "update chunks set uses = 'often'",
            "an old table": "drop table chunks; create table chunks (id blob); pragma user_version = 9",
        }[harm]
        with sqlite3.connect(path) as connection:
            connection.executescript(statement)
        connection.close()
    registry = opened(path)
    assert all_right(registry) == 5
    registry.close()
    again = opened(path)
    assert all_right(again) == 0
    again.close()


def test_a_place_that_cannot_be_written_to_keeps_nothing_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    registry = opened(tmp_path / "file" / "chunks.sqlite")
    assert (all_right(registry), all_right(registry)) == (5, 0)
    registry.close()
    assert [record.levelno for record in caplog.records][:1] == [logging.WARNING]


def test_a_full_disk_keeps_nothing_and_harms_nobody(path: Path) -> None:
    file = ChunkFile(path, MUCH)
    assert file._connection is not None
    file._connection.execute("pragma max_page_count = 8")
    registry = ChunkRegistry(MUCH, file)
    for number in range(200):
        text = f"chunk {number} " * 50
        assert registry.tokens(text, "v", letters, "file") == tuple(letters(text))
    registry.close()
    opened(path).close()


def test_a_file_that_another_process_is_writing_to_is_not_waited_for_long(path: Path) -> None:
    fill(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin exclusive")
    registry = opened(path)
    assert all_right(registry) <= 5
    registry.close()
    other.execute("rollback")
    other.close()
    again = opened(path)
    assert all_right(again) == 0
    again.close()


def test_of_more_than_the_file_may_hold_the_longest_unused_goes(path: Path) -> None:
    times = iter(range(1000))
    registry = ChunkRegistry(MUCH, ChunkFile(path, 200_000, lambda: float(next(times))))
    for number in range(640):
        registry.tokens(f"chunk {number} " * 20, "v", letters, "file")
    registry.close()
    again = opened(path)
    assert again.row(id_of("chunk 0 " * 20)) is None
    assert again.row(id_of("chunk 639 " * 20)) is not None
    assert path.stat().st_size < 2 * 200_000
    again.close()


def test_two_processes_share_a_file(path: Path) -> None:
    first, second = opened(path), opened(path)
    for number in range(200):
        (first if number % 2 else second).tokens(f"chunk {number}", "v", letters, "file")
    first.close()
    second.close()
    again = opened(path)
    assert all_right(again, 200) == 0
    again.close()


def test_threads_agree(path: Path) -> None:
    registry = opened(path)

    def use() -> None:
        for number in range(100):
            text = f"chunk {number % 20}"
            assert registry.tokens(text, "v", letters, "file") == tuple(letters(text))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(row.num_uses for row in registry.rows()) == 400
    registry.close()


@pytest.fixture(autouse=True)
def no_connection_is_left(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    """A connection that nobody closed warns when it is collected."""
    yield
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]
