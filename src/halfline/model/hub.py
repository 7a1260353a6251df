"""Fetch models from the Hugging Face hub, through its own client: tokens, mirrors and resuming are the client's.

`hf:OWNER/REPO` is the repository's only GGUF file, or its safetensors with configuration and tokenizer;
`hf:OWNER/REPO:FILE` is that GGUF file. A connection that breaks is taken up where it broke; a pull that was killed
keeps the files it had finished and starts the others again, as the client does. Only data files are taken: no
pickles, no code.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfline.errors import DownloadFailed, ModelNotFound
from halfline.model.pull import Progress
from halfline.model.store import Manifest, ModelStore, StoredFile, is_model_name, sha256_of

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_FOLDER_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
)
_LICENSE_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md")


@dataclass(frozen=True, slots=True)
class HubName:
    """hf:OWNER/REPO[:FILE], taken apart."""

    repository: str
    file: str | None

    @classmethod
    def parse(cls, name: str) -> "HubName":
        repository, _, file = name.removeprefix("hf:").partition(":")
        return cls(repository, file or None)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file to fetch, as the hub describes it. `sha256` is None for small files, which the hub keeps in git."""

    name: str
    num_bytes: int
    sha256: str | None


def pull_from_hub(store: ModelStore, name: str, progress: Progress, *, offline: bool = False) -> Path:
    """What to open for hf:OWNER/REPO[:FILE], fetched if it is missing or damaged.

    `offline` asks the network nothing and takes what the store has. Raises DownloadFailed, and ModelNotFound when the
    hub has no such repository or file.
    """
    if not is_model_name(name):
        raise ModelNotFound(name, "write hf:OWNER/REPO, or hf:OWNER/REPO:FILE for one GGUF file of several")
    stored = store.find(name)
    if stored is not None and not stored.damaged_files():
        return stored.path
    if offline:
        raise ModelNotFound(name, "it is not in the store, and fetching was forbidden with --offline")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise DownloadFailed(
            "fetching from the hub needs one more package: `.venv/bin/pip install -e '.[hub]'`"
        )
    with store.receiving(name, lambda: progress("wait", 0, None)) as incoming:
        stored = store.find(name)
        if stored is not None and not stored.damaged_files():
            return stored.path
        with _failures_in_words(name):
            return _fetch(store, name, incoming, progress)


def _fetch(store: ModelStore, name: str, incoming: Path, progress: Progress) -> Path:
    from huggingface_hub import HfApi, hf_hub_download  # an optional dependency, half a second to import

    # The client names its unfinished files at random and never returns to those of a killed process.
    for unfinished in incoming.rglob("*.incomplete"):
        unfinished.unlink()
    wanted = HubName.parse(name)
    info = HfApi().model_info(wanted.repository, files_metadata=True)
    files = _choose(name, wanted.file, _listing(info))
    bar = _progress_class(progress, sum(file.num_bytes for file in files))
    for file in files:
        hf_hub_download(wanted.repository, file.name, revision=info.sha, local_dir=incoming, tqdm_class=bar)
    gguf = [file.name for file in files if file.name.endswith(".gguf")]
    manifest = Manifest(
        name=name,
        source=f"hf:{wanted.repository}@{info.sha}",
        license=info.card_data.get("license") if info.card_data is not None else None,
        entry=gguf[0] if gguf else ".",
        files=tuple(_checked(incoming, file) for file in files),
    )
    return store.publish(manifest).path


def _listing(info: "ModelInfo") -> list[_Wanted]:
    return [
        _Wanted(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs is not None else None)
        for file in info.siblings or []
    ]


def _choose(name: str, wanted: str | None, files: Sequence[_Wanted]) -> list[_Wanted]:
    """The files that make the model, its licence beside them."""
    gguf = [file for file in files if file.name.endswith(".gguf")]
    if wanted is not None:
        chosen = [file for file in gguf if file.name == wanted]
        if not chosen:
            raise ModelNotFound(name, f"the repository has no such GGUF file; it has {_names(gguf)}")
    elif len(gguf) > 1:
        raise ModelNotFound(name, f"the repository has several GGUF files; add :FILE, one of {_names(gguf)}")
    elif gguf:
        chosen = gguf
    else:
        chosen = [file for file in files if file.name in _FOLDER_FILES or _is_weights(file.name)]
        if not any(_is_weights(file.name) for file in chosen):
            raise ModelNotFound(name, "the repository holds neither GGUF nor safetensors files")
    return chosen + [file for file in files if file.name in _LICENSE_FILES]


def _is_weights(name: str) -> bool:
    return "/" not in name and name.endswith((".safetensors", ".safetensors.index.json"))


def _names(files: Sequence[_Wanted]) -> str:
    return ", ".join(file.name for file in files) or "none"


def _checked(folder: Path, wanted: _Wanted) -> StoredFile:
    path = folder / wanted.name
    sha256 = sha256_of(path)
    if wanted.sha256 is not None and sha256 != wanted.sha256:
        # Not kept: resuming would only append to the same damage.
        path.unlink()
        raise DownloadFailed(
            f"{wanted.name} has sha256 {sha256}, the hub says {wanted.sha256}; pull it again"
        )
    return StoredFile(wanted.name, path.stat().st_size, sha256)


def _progress_class(progress: Progress, total_bytes: int) -> type[Any]:
    """The hub's client announces bytes to a class shaped like tqdm: this one passes them on and draws nothing."""
    from tqdm import tqdm  # comes with huggingface_hub

    done_bytes = 0

    class Announced(tqdm):  # type: ignore[misc]  # its own base has no types
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*arguments, **{**options, "disable": True})
            self.update(options.get("initial", 0))

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal done_bytes
            done_bytes += int(n or 0)
            progress("download", min(done_bytes, total_bytes), total_bytes)
            return None

    return Announced


@contextmanager
def _failures_in_words(name: str) -> Iterator[None]:
    from huggingface_hub import errors

    repository = HubName.parse(name).repository
    # httpx's or httpx2's, whichever the installed client speaks through.
    transport_error: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    try:
        yield
    except errors.GatedRepoError as error:
        raise DownloadFailed(
            f"{repository} asks you to accept its terms: do so on its page at the hub,"
            " then set HF_TOKEN or run `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        # The hub answers 401 for both, so as not to tell strangers what exists.
        raise ModelNotFound(
            name,
            "the hub has no such repository, or it is private;"
            " for a private one set HF_TOKEN or run `hf auth login`",
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise DownloadFailed(f"{name} is not in the store and HF_HUB_OFFLINE is set") from error
    except errors.HFValidationError as error:
        raise ModelNotFound(name, str(error).splitlines()[0]) from error
    except (transport_error, errors.LocalEntryNotFoundError, OSError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DownloadFailed(
            f"{name} could not be fetched: {reason}; pull it again, finished files are kept"
        ) from error
