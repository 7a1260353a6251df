"""`halfline lsp`: which key it asks the server with, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app


@pytest.fixture
def asked_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """`asked_with(*arguments)`: the key of the server that the language server would ask."""
    monkeypatch.setenv("HALFLINE_DATA_DIR", str(tmp_path))
    made = []
    monkeypatch.setattr("halfline.lsp.remote.RemoteServer", lambda url, key, user: made.append(key))
    monkeypatch.setattr(
        "halfline.lsp.language_server.language_server",
        lambda remote: SimpleNamespace(start_io=lambda: None),
    )

    def run(*arguments: str) -> str | None:
        result = CliRunner().invoke(app, ["lsp", "--user", "ada", *arguments])
        assert result.exit_code == 0, result.output
        return made[-1]

    return run


def test_a_key_comes_from_the_option_else_the_environment_else_the_settings_file(
    asked_with, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert asked_with() is None
    (tmp_path / "settings.toml").write_text('api_key = "from-file"')
    assert asked_with() == "from-file"
    monkeypatch.setenv("HALFLINE_API_KEY", "from-environment")
    assert asked_with() == "from-environment"
    assert asked_with("--key", "from-option") == "from-option"
    monkeypatch.setenv("HALFLINE_API_KEY", "")
    assert asked_with() is None


def test_an_editor_that_says_goodbye_is_left_with_nothing_to_complain_of() -> None:
    said = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": None, "rootUri": None}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    bodies = [json.dumps({"jsonrpc": "2.0", **each}) for each in said]
    ended = subprocess.run(
        [sys.executable, "-m", "halfline", "lsp", "--user", "ada"],
        input="".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
