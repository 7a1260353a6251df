"""Which tokens two models are compared on: windows over a few files of real code, the same ones every time."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens int32 [n] of one file, run from an empty KV; each but the first is predicted: n - 1 positions."""

    file: str
    token_ids: NDArray[np.int32]

    @property
    def num_positions(self) -> int:
        return len(self.token_ids) - 1


def default_texts() -> tuple[Path, ...]:
    """The files that come with the package; where they are from says the README beside them."""
    return tuple(sorted(path for path in (Path(__file__).parent / "texts").iterdir() if path.suffix != ".md"))


def cut_windows(
    files: Sequence[Path], encode: Callable[[str], Sequence[int]], *, num_positions: int, max_window: int
) -> tuple[Window, ...]:
    """Windows of at most `max_window` tokens with `num_positions` positions in all, fewer if the files are shorter.

    Each file gives an equal share from its start; what a short file lacks, the longer ones make up.
    Raises ValueError when there is nothing to predict.
    """
    windows: list[Window] = []
    missing = num_positions
    # Shortest first, so that those behind it know what it left over.
    texts = sorted(
        ((str(file.name), np.asarray(encode(file.read_text("utf-8")), np.int32)) for file in files),
        key=_length,
    )
    for place, (name, token_ids) in enumerate(texts):
        share = -(-missing // (len(texts) - place))
        for start in range(0, len(token_ids), max_window):
            piece = token_ids[start : min(start + max_window, len(token_ids))][: share + 1]
            if len(piece) < 2:
                break
            windows.append(Window(name, piece))
            share -= len(piece) - 1
            missing -= len(piece) - 1
    if not windows:
        raise ValueError("the texts hold no two tokens in a row")
    return tuple(windows)


def _length(text: tuple[str, NDArray[np.int32]]) -> int:
    return len(text[1])


def fingerprint(windows: Sequence[Window]) -> str:
    """sha256 over the tokens: two measurements with the same one were made on the same positions."""
    digest = hashlib.sha256()
    for window in windows:
        digest.update(len(window.token_ids).to_bytes(4, "little") + window.token_ids.astype("<i4").tobytes())
    return digest.hexdigest()
