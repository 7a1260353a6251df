"""A trace is played from any transaction on, and a file that is none is refused in words."""

import gzip
import json
from pathlib import Path

import pytest

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.trace import Edit, Trace, load

_TYPING = Trace(
    "a.rs",
    "ab",
    [(Edit(1, 0, "X"),), (Edit(2, 1, ""),), (Edit(0, 0, "1"), Edit(3, 0, "yz")), (Edit(0, 6, ""),)],
)


def test_a_stretch_begins_with_what_the_earlier_transactions_left() -> None:
    assert list(_TYPING.stretch(1, 2).keystrokes()) == [Keystroke(1, "aX", ""), Keystroke(2, "1aXyz", "")]


def test_a_stretch_ends_with_its_trace() -> None:
    assert [each.transaction for each in _TYPING.stretch(2, 100).keystrokes()] == [2, 3]


def test_a_place_beyond_the_trace_is_refused() -> None:
    with pytest.raises(ValueError, match=r"transaction 4 of a\.rs was asked for, it has 4"):
        _TYPING.stretch(4, 1)


def test_a_trace_is_read_with_gzip_and_without_and_empty_transactions_are_no_keystrokes(
    tmp_path: Path,
) -> None:
    text = json.dumps(
        {"startContent": "s", "endContent": "st", "txns": [{"patches": []}, {"patches": [[1, 0, "t"]]}]}
    )
    plain, packed = tmp_path / "plain.json", tmp_path / "packed.json.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for file in (plain, packed):
        assert load(file, "x.py") == Trace("x.py", "s", [(Edit(1, 0, "t"),)])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"startContent": "", "txns": [[1]]}',
        b"\x1f\x8bno gzip",
        b'{"startContent": "", "txns": [{"patches": [[0]]}]}',
    ],
)
def test_what_is_no_trace_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "odd.json"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"odd\.json is no editing trace"):
        load(file, "x.py")
