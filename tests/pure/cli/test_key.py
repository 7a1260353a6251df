"""`halfline key`: a key is told once, and what cannot be one is said."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfline.api.keys.key import is_it
from halfline.api.keys.key_file import FILE_NAME, read_keys
from halfline.cli.main import app


@pytest.fixture
def key(tmp_path: Path):
    """`key("list")`: the result of one command over this test's own data directory."""
    return lambda *arguments: CliRunner().invoke(app, ["key", *arguments, "--data-dir", str(tmp_path)])


def test_what_create_prints_is_the_key_and_list_shows_all_but_it(key, tmp_path: Path) -> None:
    options = (
        "--name",
        "[bold]Ann",
        "--tenant",
        "team",
        "--expires",
        "90d",
        "--rate",
        "60/min",
        "--concurrency",
        "4",
    )
    created = key("create", *options)
    sent = created.stdout.strip()
    (kept,) = read_keys(tmp_path / FILE_NAME).values()
    assert is_it(sent, kept)
    assert (kept.name, kept.tenant, kept.scope) == ("[bold]Ann", "team", "complete")
    assert (kept.expires_at, kept.per_minute, kept.at_once) == (kept.created_at + 90 * 86_400, 60, 4)
    listed = key("list").stdout
    for shown in (kept.id, "[bold]Ann", "team", "complete", "60", "4", "valid"):
        assert shown in listed
    assert sent not in listed and kept.digest not in listed


def test_a_revoked_key_is_listed_as_such(key, tmp_path: Path) -> None:
    key("create")
    (kept,) = read_keys(tmp_path / FILE_NAME).values()
    assert key("revoke", kept.id).exit_code == 0
    assert "revoked" in key("list").stdout
    assert key("revoke", "abc").exit_code == 2


def test_without_keys_list_says_what_that_means(key) -> None:
    assert "whoever reaches the server may use it" in key("list").stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--scope", "root"),
        ("--tenant", "a b"),
        ("--tenant", ""),
        ("--name", "x" * 101),
        ("--name", "a\nb"),
        ("--name", "a\x1b[31m"),
        ("--name", "a\u202eb"),
        ("--expires", "9y"),
        ("--expires", "0d"),
        ("--rate", "0/min"),
        ("--rate", "many"),
        ("--concurrency", "0"),
        ("--concurrency", "1000001"),
    ],
)
def test_what_no_key_can_be_is_refused_and_makes_none(key, tmp_path: Path, option: str, value: str) -> None:
    refused = key("create", option, value)
    assert refused.exit_code == 2
    assert option.removeprefix("--")[:4] in refused.output or "at_once" in refused.output
    assert not (tmp_path / FILE_NAME).exists()
