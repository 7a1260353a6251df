"""What `halfline replay` cannot do is said in one sentence, before anything is started."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "nothing to replay"),
        (("no-such-file.json",), "cannot replay"),
        (("TRACE", "--from", "99"), "transaction 99 of typed.rs was asked for"),
        (("TRACE", "--against", "llama-server"), "needs --llama-bin"),
        (("TRACE", "--anchored"), "need --against llama-server"),
        (("TRACE", "--from", "1", "--typists", "2"), "2 typists need as many places, there are 1"),
        (("TRACE", "--url", "ftp://x", "--keystrokes", "1"), "--url ftp://x"),
        (("--file", "a.py"), "say which with --git"),
    ],
)
def test_what_cannot_be_replayed_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    trace = tmp_path / "typed.json"
    transactions = [{"patches": [[i, 0, "x"]]} for i in range(9)]
    trace.write_text(json.dumps({"startContent": "", "endContent": "x" * 9, "txns": transactions}))
    words = [str(trace) if word == "TRACE" else word for word in arguments]
    result = CliRunner().invoke(app, ["replay", *words])
    assert result.exit_code == 2
    assert sentence in result.stderr
