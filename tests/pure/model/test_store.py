"""The store shows a model whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from halfline.errors import DamagedModel, DownloadFailed, HalflineError, ModelNotFound, UnsupportedModel
from halfline.model.store import MANIFEST, Manifest, ModelStore, StoredFile, StoredModel

WEIGHTS = b"weights" * 1000


def never_waits() -> None:
    raise AssertionError("nobody else holds the lock")


def add(store: ModelStore, name: str, weights: bytes = WEIGHTS) -> StoredModel:
    with store.receiving(name, never_waits) as incoming:
        (incoming / "weights.gguf").write_bytes(weights)
        file = StoredFile("weights.gguf", len(weights), sha256(weights).hexdigest())
        return store.publish(
            Manifest(name=name, source="test", license=None, entry="weights.gguf", files=(file,))
        )


def test_a_stored_model_is_found_by_name(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    model = add(store, "tiny")
    assert store.resolve("tiny") == model.path == tmp_path / "models" / "tiny" / "weights.gguf"
    assert store.find("tiny") == model
    assert store.models() == (model,)


def test_an_empty_store_lists_nothing_and_creates_nothing(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "absent")
    assert store.models() == ()
    assert store.path_of("tiny") is None
    assert not (tmp_path / "absent").exists()


def test_hub_names_do_not_collide_in_the_store(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    names = ["hf:owner/repo", "hf:owner/repo:weights.gguf", "hf:owner/repo:deep/weights.gguf", "owner"]
    for name in names:
        add(store, name, name.encode())
    assert sorted(model.manifest.name for model in store.models()) == sorted(names)
    for name in names:
        assert store.resolve(name).read_bytes() == name.encode()


@pytest.mark.parametrize(
    "name", ["..", "hf:../x", "hf:a/b:../../x", "hf:a/..", ".incoming", "hf:a", "", "a\n", "a b"]
)
def test_a_name_that_could_leave_the_store_is_not_a_name(tmp_path: Path, name: str) -> None:
    store = ModelStore(tmp_path)
    assert store.find(name) is None
    with pytest.raises(ValueError), store.receiving(name, never_waits):
        pass


def test_a_path_resolves_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ModelStore(tmp_path / "data")
    file = tmp_path / "a.gguf"
    file.touch()
    assert store.resolve(str(file)) == file
    assert store.resolve(str(tmp_path)) == tmp_path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert store.resolve("folder") == Path("folder")


def test_a_stored_name_wins_over_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ModelStore(tmp_path / "data")
    model = add(store, "tiny")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").touch()
    assert store.resolve("tiny") == model.path
    assert store.resolve("./tiny") == Path("tiny")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("smollm2-135m", "halfline model pull smollm2-135m"),
        ("hf:owner/repo", "halfline model pull hf:owner/repo"),
        ("/nowhere/a.gguf", "there is no file or folder /nowhere/a.gguf"),
        ("a b", "give a name, a path"),
    ],
)
def test_what_is_not_found_comes_with_what_to_do(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(ModelNotFound, match=advice):
        ModelStore(tmp_path).resolve(name)


def test_a_changed_a_shorter_and_a_missing_file_are_damage(tmp_path: Path) -> None:
    model = add(ModelStore(tmp_path), "tiny")
    heard: list[int] = []
    assert model.damaged_files(heard.append) == ()
    assert sum(heard) == model.manifest.num_bytes == len(WEIGHTS)
    for damaged in (WEIGHTS[:-1] + b"!", WEIGHTS[:-1]):
        model.path.write_bytes(damaged)
        assert model.damaged_files() == ("weights.gguf",)
    model.path.unlink()
    assert model.damaged_files() == ("weights.gguf",)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"files": [{"size": 1}]}', '{"files": [], "name": "x", "more": 1}']
)
def test_an_unreadable_manifest_is_a_damaged_model(tmp_path: Path, text: str) -> None:
    store = ModelStore(tmp_path)
    model = add(store, "tiny")
    (model.folder / MANIFEST).write_text(text)
    with pytest.raises(DamagedModel, match="delete its folder and fetch it again with `halfline model pull`"):
        store.resolve("tiny")


def test_publishing_again_replaces_the_model_and_drops_what_is_not_in_the_manifest(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    add(store, "tiny", b"first")
    with store.receiving("tiny", never_waits) as incoming:
        (incoming / "cache" / "deep").mkdir(parents=True)
        (incoming / "cache" / "deep" / "part").touch()
    model = add(store, "tiny", b"second")
    assert model.path.read_bytes() == b"second"
    assert sorted(os.listdir(model.folder)) == [MANIFEST, "weights.gguf"]
    assert os.listdir(tmp_path / "models" / ".incoming") == ["tiny.lock"]


def test_a_receiver_finds_what_an_interrupted_one_left(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    with pytest.raises(RuntimeError), store.receiving("tiny", never_waits) as incoming:
        (incoming / "half").write_bytes(b"h")
        raise RuntimeError
    with store.receiving("tiny", never_waits) as incoming:
        assert (incoming / "half").read_bytes() == b"h"
    assert store.path_of("tiny") is None


# Adds a model and kills itself at the N-th time it touches the disk under the data directory.
KILLED_ADD = """
import os, signal, sys
from hashlib import sha256
from pathlib import Path
from halfline.model.store import Manifest, ModelStore, StoredFile
data_dir, fatal = Path(sys.argv[1]), int(sys.argv[2])
touched = 0
def trap(event, arguments):
    global touched
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and str(data_dir) in str(arguments[0]):
        touched += 1
        if touched == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
store, weights = ModelStore(data_dir), b"new" * 1000
sys.addaudithook(trap)
with store.receiving("tiny", lambda: None) as incoming:
    (incoming / "weights.gguf").write_bytes(weights)
    file = StoredFile("weights.gguf", len(weights), sha256(weights).hexdigest())
    store.publish(Manifest(name="tiny", source="test", license=None, entry="weights.gguf", files=(file,)))
"""


def test_a_process_killed_at_any_moment_leaves_a_whole_model_or_none(tmp_path: Path) -> None:
    outcomes: set[bytes | None] = set()
    for fatal in range(1, 100):
        data_dir = tmp_path / str(fatal)
        store = ModelStore(data_dir)
        add(store, "tiny", b"old")
        ended = subprocess.run([sys.executable, "-c", KILLED_ADD, str(data_dir), str(fatal)])
        model = store.find("tiny")
        assert model is None or model.damaged_files() == ()
        outcomes.add(None if model is None else model.path.read_bytes())
        assert add(store, "tiny", b"newest").path.read_bytes() == b"newest"
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
    assert outcomes == {b"old", None, b"new" * 1000}


HOLDER = """
import sys
from pathlib import Path
from halfline.model.store import ModelStore
with ModelStore(Path(sys.argv[1])).receiving("tiny", lambda: None):
    print("holding", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_waits_until_the_first_one_dies(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holding\n"
        waited = []

        def kill_the_holder() -> None:
            waited.append(True)
            holder.kill()

        with ModelStore(tmp_path).receiving("tiny", kill_the_holder) as incoming:
            assert incoming.is_dir()
        assert waited == [True]


def test_a_place_that_cannot_be_written_is_a_download_that_failed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadFailed, match=r"tiny cannot be stored in .*/file/models"):
        add(ModelStore(tmp_path / "file"), "tiny")


def test_a_full_disk_in_the_middle_is_a_download_that_failed(tmp_path: Path) -> None:
    with (
        pytest.raises(DownloadFailed, match="No space left"),
        ModelStore(tmp_path).receiving("a", never_waits),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_cannot_be_read_counts_as_damaged(tmp_path: Path) -> None:
    model = add(ModelStore(tmp_path), "tiny")
    model.path.unlink()
    model.path.mkdir()
    assert model.damaged_files() == ("weights.gguf",)


def test_a_name_too_long_for_any_disk_is_not_found(tmp_path: Path) -> None:
    for name in ("a" * 5000, "./" + "a" * 5000):
        with pytest.raises(ModelNotFound):
            ModelStore(tmp_path).resolve(name)


@pytest.mark.parametrize("error", [DamagedModel("f", "cut off"), ModelNotFound("f", "gone")])
def test_damage_to_a_stored_model_comes_with_its_repair(tmp_path: Path, error: HalflineError) -> None:
    store = ModelStore(tmp_path)
    add(store, "tiny")
    with (
        pytest.raises(DamagedModel, match=r"(cut off|gone); repair with `halfline model pull tiny`"),
        store.repairable("tiny"),
    ):
        raise error


def test_what_no_pull_can_repair_is_raised_as_it_is(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    add(store, "tiny")
    for name, error in (("tiny", UnsupportedModel("f", "new")), ("./a.gguf", DamagedModel("f", "cut off"))):
        with pytest.raises(type(error)) as raised, store.repairable(name):
            raise error
        assert raised.value is error
