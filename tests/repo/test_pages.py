"""The pages as a reader uses them: links lead somewhere, commands can be typed in, nothing waits to be filled in."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from halfline.cli.cursor import document_at
from halfline.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md"))
    if ".pytest_cache" not in path.parts
)
# The changelog speaks of commands, such as `halfline model pull | list`, without spelling them out.
GUIDES = [path for path in PAGES if path.name != "CHANGELOG.md"]

_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)")
_PLACEHOLDER = re.compile(r"\s*(?:[A-Z][A-Z _]*|TODO\b.*|TBD\b.*|FIXME\b.*|\.\.\.)\s*")
_COMMAND = re.compile(r"(?:^    |`|&& )(?:\.venv/bin/)?halfline ([^`#>|&\n]+)", re.MULTILINE)


_SOURCE = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`")


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def commands(page: str) -> Iterator[list[str]]:
    """The arguments of every `halfline …` in code, inline or indented."""
    for found in _COMMAND.finditer(page):
        yield shlex.split(found[1])


def parse(arguments: list[str]) -> Any:
    """What the command line makes of them, without running anything. Raises click's UsageError."""
    command: Any = get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        assert rest and rest[0] in command.commands, f"halfline {shlex.join(arguments)}"
        command = command.commands[rest.pop(0)]
    return command.make_context(command.name, rest).params


@pytest.mark.parametrize("page", names(GUIDES))
def test_every_source_file_that_a_page_names_is_there(page: str) -> None:
    missing = [
        path
        for path in _SOURCE.findall((ROOT / page).read_text(encoding="utf-8"))
        if not (ROOT / path).exists() and not (ROOT / "src" / "halfline" / path).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", names(PAGES))
def test_every_relative_link_leads_to_a_file(page: str) -> None:
    path = ROOT / page
    missing = [
        link for link in _LINK.findall(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", names(PAGES))
def test_nothing_on_a_page_waits_to_be_filled_in(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if _PLACEHOLDER.fullmatch(line)]


@pytest.mark.parametrize("page", names(GUIDES))
def test_every_command_on_a_page_can_be_typed_in(page: str) -> None:
    for arguments in commands((ROOT / page).read_text(encoding="utf-8")):
        parse(arguments)


def test_every_place_that_the_readme_completes_at_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    places = [
        parse(arguments)["place"]
        for arguments in commands((ROOT / "README.md").read_text(encoding="utf-8"))
        if arguments[0] == "complete"
    ]
    assert places
    for place in places:
        assert document_at(place).prefix


def test_the_checks_see_what_they_are_for() -> None:
    page = "    .venv/bin/halfline serve --modle x   # no\nand `halfline model pull` or\n    pip && halfline serv\n"
    assert list(commands(page)) == [["serve", "--modle", "x"], ["model", "pull"], ["serv"]]
    with pytest.raises(Exception, match="--modle"):
        parse(["serve", "--modle", "x"])
    with pytest.raises(AssertionError, match="halfline serv"):
        parse(["serv"])
    assert _PLACEHOLDER.fullmatch("TABLE") and not _PLACEHOLDER.fullmatch("A table")
    assert _LINK.findall("[a](docs/x.md#there) [b](https://x.example) [c](#here)") == ["docs/x.md"]
