"""How the command ends when the terminal or the disk gets in its way: a sentence or nothing, never a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HALFLINE = [sys.executable, "-m", "halfline"]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["settings", "doc"], ["settings", "show"], ["model", "list", "--data-dir", "/proc"]],
)
def test_an_output_that_is_full_is_one_sentence(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            HALFLINE + arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 2
    assert result.stderr == "halfline: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["complete", "--stdin"]])
def test_an_interrupt_at_any_moment_of_the_imports_ends_quietly(command: list[str], tmp_path: Path) -> None:
    for delay_ms in range(0, 400, 50):
        # The interpreter's own start is not ours; the file shows that it is over.
        begun = tmp_path / f"begun-{delay_ms}"
        program = (
            "import pathlib, signal, sys; from halfline.cli.entry import main;"
            # Whoever started the tests may have them ignore interrupts, as shells do in the background.
            " signal.signal(signal.SIGINT, signal.default_int_handler);"
            " pathlib.Path(sys.argv.pop(1)).touch(); main()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(begun), *command],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HALFLINE_MODEL": "/no/such.gguf"},
        )
        assert process.stdin is not None
        while not begun.exists():
            time.sleep(0.001)
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        # Where the machine was fast, the command had already said that there is no such model.
        assert (process.returncode, said) == (130, "") or said.startswith("halfline: no model"), said
        assert said.count("\n") <= 1


@pytest.mark.parametrize("command", ["pull", "serve"])
def test_a_data_directory_that_cannot_be_written_is_one_sentence(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    arguments = {"pull": ["model", "pull"], "serve": ["serve", "--port", "0"]}[command]
    result = subprocess.run(
        [*HALFLINE, *arguments, "--data-dir", str(tmp_path / "file")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    (sentence,) = result.stderr.split("\n")[-2:-1]
    assert sentence.startswith("halfline: smollm2-135m cannot be stored in ")


@pytest.mark.parametrize("option", ["--data-dir", "--settings"])
def test_an_empty_path_is_refused_and_not_taken_for_this_folder(option: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [*HALFLINE, "model", "list", option, ""], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 2
    assert f"'{option}': it is empty" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_command_that_needs_models_is_told_where_they_lie_in_the_same_way() -> None:
    from typer.main import get_command

    from halfline.cli.main import app

    def leaves(command, path=()):
        children = getattr(command, "commands", {})
        if not children:
            yield path, {option for each in command.params for option in each.opts}
        for name, child in children.items():
            yield from leaves(child, (*path, name))

    found = dict(leaves(get_command(app)))
    assert len(found) >= 8
    for path, options in found.items():
        if path not in {("settings", "doc"), ("settings", "article"), ("quality", "cuts")}:  # they need none
            assert {"--data-dir", "--settings"} <= options, path
