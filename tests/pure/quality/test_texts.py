"""Windows share positions evenly over files and lose none."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.quality.texts import cut_windows, default_texts


def encode(text: str) -> list[int]:
    return list(text.encode())


@given(st.lists(st.integers(0, 60), min_size=1, max_size=5), st.integers(1, 100), st.integers(2, 40))
def test_windows_have_the_positions_asked_for_or_all_there_are(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], num_positions: int, max_window: int
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    files = [folder / f"{i}.txt" for i in range(len(lengths))]
    for file, length in zip(files, lengths, strict=True):
        file.write_text("".join(chr(65 + i % 26) for i in range(length)))
    if max(lengths) < 2:
        with pytest.raises(ValueError, match="no two tokens"):
            cut_windows(files, encode, num_positions=num_positions, max_window=max_window)
        return
    windows = cut_windows(files, encode, num_positions=num_positions, max_window=max_window)
    # A file's last window may be a lone token, which predicts nothing.
    there_are = sum(max(length - -(-length // max_window), 0) for length in lengths)
    assert sum(window.num_positions for window in windows) == min(num_positions, there_are)
    for window in windows:
        assert 2 <= len(window.token_ids) <= max_window
        assert bytes(window.token_ids.tolist()).decode() in (folder / window.file).read_text()


def test_each_file_gives_the_same_share_when_it_can(tmp_path: Path) -> None:
    for name, length in (("a", 10), ("b", 300), ("c", 300)):
        (tmp_path / name).write_text("x" * length)
    windows = cut_windows(sorted(tmp_path.iterdir()), encode, num_positions=209, max_window=64)
    positions = {name: sum(w.num_positions for w in windows if w.file == name) for name in "abc"}
    assert positions == {"a": 9, "b": 100, "c": 100}


def test_the_default_texts_are_code_of_several_files_with_licences() -> None:
    files = default_texts()
    assert len(files) == 10
    assert (files[0].parent / "README.md").exists()
    assert sum(file.stat().st_size for file in files) < 200_000
    windows = cut_windows(files, encode, num_positions=5000, max_window=512)
    assert len({window.file for window in windows}) == 10
    assert all(window.token_ids.dtype == np.int32 for window in windows)
