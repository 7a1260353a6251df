"""Equal files have equal digests, whatever they are called and whenever they were fetched; no byte is overlooked."""

import hashlib
import os
from pathlib import Path

import pytest

from halfline.errors import BadModel
from halfline.model import content_digest as module
from halfline.model.content_digest import content_digest

WEIGHTS = bytes(range(256)) * 64


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "digests"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read whole."""
    files: list[Path] = []

    def sha256_of(path: Path) -> str:
        files.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(module, "sha256_of", sha256_of)
    return files


def model(folder: Path, name: str = "model.gguf", data: bytes = WEIGHTS) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def test_a_copy_of_another_name_and_time_is_the_same(tmp_path: Path, memory: Path) -> None:
    one, other = model(tmp_path / "one"), model(tmp_path / "other", "renamed.gguf")
    os.utime(other, (1, 1))
    assert content_digest(one, memory) == content_digest(other, memory)
    assert content_digest(one, memory) == hashlib.sha256(WEIGHTS).hexdigest()


@pytest.mark.parametrize("place", [0, 5000, len(WEIGHTS) - 1])
def test_one_changed_byte_is_another_even_if_size_and_time_are_put_back(
    tmp_path: Path, memory: Path, place: int
) -> None:
    path = model(tmp_path / "one")
    status = path.stat()
    before = content_digest(path, memory)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([WEIGHTS[place] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert content_digest(path, memory) != before


def test_a_folder_is_all_of_its_files_but_not_what_the_store_notes_of_them(
    tmp_path: Path, memory: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        model(folder, "a.safetensors")
        model(folder, "config.json", b"{}")
    model(one, "halfline.json", b"fetched from here")
    assert content_digest(one, memory) == content_digest(other, memory)
    (other / "a.safetensors").rename(other / "b.safetensors")
    assert content_digest(one, memory) != content_digest(other, memory)
    (other / "b.safetensors").rename(other / "a.safetensors")
    model(other, "config.json", b"{ }")
    assert content_digest(one, memory) != content_digest(other, memory)
    model(other, "config.json", b"{}")
    model(other, "empty", b"")
    assert content_digest(one, memory) != content_digest(other, memory)


def test_a_file_is_read_once_until_somebody_touches_it(
    tmp_path: Path, memory: Path, read: list[Path]
) -> None:
    path, other = model(tmp_path / "one"), model(tmp_path / "other")
    for _ in range(2):
        content_digest(path, memory)
        content_digest(other, memory)
    assert read == [path, other]
    os.utime(path, (1, 1))
    for _ in range(2):
        content_digest(path, memory)
        content_digest(tmp_path / "other", memory)
    assert read == [path, other, path]


@pytest.mark.parametrize("damage", [b"", b"1:2 3\n", b"\xff\xfe", b"{}", b"x" * 100_000, bytes(100)])
def test_a_memory_that_is_none_of_ours_is_replaced(
    tmp_path: Path, memory: Path, read: list[Path], damage: bytes
) -> None:
    memory.parent.mkdir()
    memory.write_bytes(damage)
    path = model(tmp_path / "one")
    for _ in range(2):
        assert content_digest(path, memory) == hashlib.sha256(WEIGHTS).hexdigest()
    assert read == [path]


def test_where_nothing_can_be_remembered_it_is_read_each_time(tmp_path: Path, read: list[Path]) -> None:
    (tmp_path / "file").touch()
    path = model(tmp_path / "one")
    for memory in (tmp_path / "file" / "digests", tmp_path / "one"):
        for _ in range(2):
            assert content_digest(path, memory) == hashlib.sha256(WEIGHTS).hexdigest()
    assert len(read) == 4
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "one"]


def test_a_file_that_is_written_to_while_it_is_read_is_not_remembered(
    tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model(tmp_path / "one")

    def while_it_is_written(path: Path) -> str:
        path.write_bytes(b"more")
        return "0" * 64

    monkeypatch.setattr(module, "sha256_of", while_it_is_written)
    content_digest(path, memory)
    monkeypatch.undo()
    assert content_digest(path, memory) == hashlib.sha256(b"more").hexdigest()


def test_what_is_remembered_stays_small_and_keeps_what_was_used_last(tmp_path: Path, memory: Path) -> None:
    memory.parent.mkdir()
    memory.write_text("".join(f"1:{number} {'0' * 64}\n" for number in range(500)))
    content_digest(model(tmp_path / "one"), memory)
    lines = memory.read_text().splitlines()
    assert len(lines) == 256 and lines[-1].endswith(hashlib.sha256(WEIGHTS).hexdigest())
    assert [path.name for path in memory.parent.iterdir()] == ["digests"]


def test_a_model_that_is_gone_is_no_model(tmp_path: Path, memory: Path) -> None:
    with pytest.raises(BadModel, match="gone"):
        content_digest(tmp_path / "gone", memory)


def test_a_models_digest_is_that_of_its_bytes_wherever_they_lie(tmp_path: Path, memory: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(b"weights")
    assert content_digest(file, memory) == hashlib.sha256(b"weights").hexdigest()
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    assert content_digest(folders[0], memory) == content_digest(folders[1], memory)
    (folders[1] / "config.json").write_text("{ }")
    assert content_digest(folders[0], memory) != content_digest(folders[1], memory)
