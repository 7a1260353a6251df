"""The models on this disk: where they lie, and how a new one gets there whole or not at all.

    DATA_DIR/models/
      smollm2-135m/                     one folder per model, complete from the moment it has this name
        halfline.json                   its manifest: source, licence, size and sha256 of every file
        SmolLM2-135M-Instruct.Q4_1.gguf
        LICENSE
      .incoming/smollm2-135m/           what is being fetched; renamed to the above when it is complete
      .incoming/smollm2-135m.lock       held by the one process that fetches it; the system frees it with its holder

Knows nothing of where models come from (`pull`, `hub`) nor of what is inside their files (`load`).
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from halfline.errors import BadModel, DamagedModel, DownloadFailed, ModelNotFound, UnsupportedModel

MANIFEST = "halfline.json"

# A plain name, or hf:OWNER/REPO with an optional :FILE. No segment starts with a dot, so none can climb out.
_NAME = re.compile(r"S|hf:S/S(:S(/S)*)?".replace("S", r"\w[\w.-]*"), re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`name` is relative to the model's folder."""

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a model's folder holds. `entry` is the file to open, or "." for the folder itself."""

    name: str
    source: str
    license: str | None
    entry: str
    files: tuple[StoredFile, ...]

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class StoredModel:
    folder: Path
    manifest: Manifest

    @property
    def path(self) -> Path:
        """What an opener takes: a GGUF file, or a folder of Hugging Face files."""
        return self.folder / self.manifest.entry

    def damaged_files(self, hashed: Callable[[int], None] = lambda num_bytes: None) -> tuple[str, ...]:
        """Files that are gone or no longer what was stored; reads them all, telling `hashed` as it goes."""
        return tuple(file.name for file in self.manifest.files if not self._is_intact(file, hashed))

    def _is_intact(self, file: StoredFile, hashed: Callable[[int], None]) -> bool:
        path = self.folder / file.name
        try:
            return path.stat().st_size == file.num_bytes and sha256_of(path, hashed) == file.sha256
        except OSError:  # gone, or nothing that can be read: what was stored is not there any more
            return False


class ModelStore:
    """The models under one data directory. Safe to use from several processes at once."""

    def __init__(self, data_dir: Path) -> None:
        self._root = data_dir / "models"

    def resolve(self, name_or_path: str) -> Path:
        """The file or folder to open for a stored model's name, or for a path.

        A stored name wins over a file of that name in the working directory; write ./NAME for the file.
        Raises ModelNotFound, saying what to do.
        """
        # os.path.exists here and below: Path's own raises for what may not be looked at, or has an endless name.
        stored = self.path_of(name_or_path)
        if stored is not None:
            return stored
        if _looks_like_path(name_or_path):
            path = Path(name_or_path).expanduser()
            if os.path.exists(path):
                return path
            raise ModelNotFound(name_or_path, f"there is no file or folder {path.absolute()}")
        if os.path.exists(name_or_path):
            return Path(name_or_path)
        if not is_model_name(name_or_path):
            raise ModelNotFound(
                name_or_path, "give a name, a path to a GGUF file or folder, or hf:OWNER/REPO[:FILE]"
            )
        raise ModelNotFound(
            name_or_path,
            f"fetch it with `halfline model pull {name_or_path}`, or see `halfline model list` for what is here",
        )

    def path_of(self, name: str) -> Path | None:
        """What to open for a stored model; None when it is not in the store."""
        model = self.find(name)
        return None if model is None else model.path

    def find(self, name: str) -> StoredModel | None:
        """Raises DamagedModel when the model is there but its manifest cannot be read."""
        if not is_model_name(name):
            return None
        folder = self._root / _folder_name(name)
        if not os.path.exists(folder / MANIFEST):
            return None
        return StoredModel(folder, _read_manifest(folder / MANIFEST))

    def models(self) -> tuple[StoredModel, ...]:
        """All of them, by name."""
        manifests = sorted(self._root.glob(f"[!.]*/{MANIFEST}"))
        return tuple(StoredModel(path.parent, _read_manifest(path)) for path in manifests)

    @contextmanager
    def repairable(self, name: str) -> Iterator[None]:
        """Open and read a model in here: what is wrong with a stored one's files is raised with how to repair it."""
        try:
            yield
        except (BadModel, ModelNotFound) as error:
            if isinstance(error, UnsupportedModel) or self.find(name) is None:
                raise
            raise DamagedModel(name, f"{error}; repair with `halfline model pull {name}`") from error

    @contextmanager
    def receiving(self, name: str, waiting: Callable[[], None]) -> Iterator[Path]:
        """Be the one process that fetches `name`, into the folder that this yields.

        The folder may hold what an interrupted attempt left. `waiting` is called when another process is
        at it and we wait until it ends; ask `find` again inside, it may have succeeded. Raises DownloadFailed for
        whatever the disk refuses, inside too.
        """
        incoming = self._incoming(name)
        try:
            incoming.mkdir(parents=True, exist_ok=True)
            # The lock file stays: deleting it would let a third process lock a new file beside a waiting second.
            with open(incoming.with_name(incoming.name + ".lock"), "ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    waiting()
                    fcntl.flock(lock, fcntl.LOCK_EX)
                # The process we waited for may have published, and so renamed, the folder.
                incoming.mkdir(exist_ok=True)
                yield incoming
                if incoming.exists() and not any(incoming.iterdir()):
                    incoming.rmdir()
        except OSError as error:
            raise DownloadFailed(f"{name} cannot be stored in {self._root}: {error}") from error

    def publish(self, manifest: Manifest) -> StoredModel:
        """Give the incoming folder its name; call it inside `receiving`. Files not in the manifest are dropped."""
        incoming, folder = self._incoming(manifest.name), self._root / _folder_name(manifest.name)
        _keep_only(incoming, [file.name for file in manifest.files])
        (incoming / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
        # Contents must reach the disk before the name does, or a power cut leaves a whole-looking folder.
        for path in [*incoming.rglob("*"), incoming]:
            _sync(path)
        if folder.exists():
            replaced = incoming.with_name(incoming.name + ".replaced")
            shutil.rmtree(replaced, ignore_errors=True)
            folder.rename(replaced)
        incoming.rename(folder)
        _sync(self._root)
        shutil.rmtree(incoming.with_name(incoming.name + ".replaced"), ignore_errors=True)
        return StoredModel(folder, manifest)

    def _incoming(self, name: str) -> Path:
        if not is_model_name(name):
            raise ValueError(f"{name!r} cannot name a stored model")
        return self._root / ".incoming" / _folder_name(name)


def is_model_name(text: str) -> bool:
    """Whether a model could be stored under this name; that says nothing about whether one is."""
    return _NAME.fullmatch(text) is not None


def sha256_of(path: Path, hashed: Callable[[int], None] = lambda num_bytes: None) -> str:
    """Hex digest of a file, read a mebibyte at a time; `hashed` hears how many bytes each time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            hashed(len(piece))
    return digest.hexdigest()


def _looks_like_path(name: str) -> bool:
    return not name.startswith("hf:") and ("/" in name or "\\" in name or name.endswith(".gguf"))


def _folder_name(name: str) -> str:
    # The hub forbids "--" in owners and repositories, so this cannot make two names one.
    return name.replace(":", "--").replace("/", "--")


def _read_manifest(path: Path) -> Manifest:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        files = tuple(StoredFile(**file) for file in fields.pop("files"))
        return Manifest(**fields, files=files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedModel(
            str(path),
            "the manifest cannot be read; delete its folder and fetch it again with `halfline model pull`",
        ) from error


def _keep_only(folder: Path, names: Sequence[str]) -> None:
    kept = {folder / name for name in names}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in kept:
            path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
