"""The command line before anything heavy happens."""

import subprocess
import sys

import pytest


def test_help_lists_the_commands_without_loading_http_or_a_model() -> None:
    program = (
        "import sys\nfrom halfline.cli.main import app\n"
        "try: app(['--help'])\nfinally: print([m for m in ('fastapi', 'uvicorn', 'httpx', 'torch', 'pydantic',"
        " 'halfline.native.executor') if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    for command in ("serve", "complete", "settings"):
        assert command in result.stdout
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize("command", ["serve", "complete", "key", "settings"])
def test_every_command_explains_itself(command: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "halfline", command, "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "--help" in result.stdout
