"""A recorded session is replayed to just where each keystroke left it."""

import gzip
import json
from pathlib import Path

from halfline.bench.keystrokes import Keystroke, replay


def test_the_document_is_cut_at_the_cursor_of_each_wanted_keystroke(tmp_path: Path) -> None:
    patches = [[0, 0, "abc"], [1, 0, "X"], [2, 1, ""], [0, 0, "\n"]]
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(gzip.compress(json.dumps({"txns": [{"patches": [each]} for each in patches]}).encode()))
    assert list(replay(trace, range(1, 4, 2), 2)) == [
        Keystroke(1, "aX", "bc"),
        Keystroke(2, "aX", "c"),
        Keystroke(3, "\n", "aXc"),
    ]


def test_a_window_starts_on_a_line_and_nothing_is_lost() -> None:
    keystroke = Keystroke(0, "one\ntwo\nthree", "")
    assert keystroke.window(2) == ("two\nthree", "one\n")
    assert keystroke.window(9) == ("one\ntwo\nthree", "")
    assert Keystroke(0, "one\ntwo\n", "").window(1) == ("", "one\ntwo\n")
    assert Keystroke(0, "", "x").window(3) == ("", "")
