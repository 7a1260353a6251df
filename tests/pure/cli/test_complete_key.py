"""`halfline complete --server`: which key it asks with."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app


def test_a_key_comes_from_the_option_else_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HALFLINE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("halfline.cli.complete.hurry", lambda: None)  # who asks never settles
    sent = []
    monkeypatch.setattr("halfline.cli.asking.complete_there", lambda *asked: sent.append(asked[-1]))

    def ask(*arguments: str) -> str | None:
        command = ["complete", "--stdin", "--server", "http://127.0.0.1:9", *arguments]
        result = CliRunner().invoke(app, command, input="a<CURSOR>")
        assert result.exit_code == 0, result.output
        return sent[-1]

    assert ask() is None
    monkeypatch.setenv("HALFLINE_API_KEY", "from-environment")
    assert ask() == "from-environment"
    assert ask("--key", "from-option") == "from-option"
