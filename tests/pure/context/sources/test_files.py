import inspect
import os
import sys
from pathlib import Path

import pytest

from halfline.context.sources.files import MAX_BYTES, candidates, is_secret, read


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def found(root: Path) -> list[str]:
    return [each.path for each in candidates(root)]


def test_source_files_in_order_without_what_is_ignored_or_made(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "b.py": "x",
            "a/c.rs": "x",
            "a/generated.rs": "x",
            "a/.gitignore": "generated.rs\n!kept.log.py\n",
            ".gitignore": "*.log.py\n/out\n",
            "a/kept.log.py": "x",
            "some.log.py": "x",
            "out/d.py": "x",
            "a/out/e.py": "x",
            ".git/f.py": "x",
            "node_modules/g.js": "x",
            "site.min.js": "x",
            "picture.png": "x",
            "empty.py": "",
            "long.py": "x" * (MAX_BYTES + 1),
        },
    )
    assert found(tmp_path) == ["a/c.rs", "a/kept.log.py", "a/out/e.py", "b.py"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"inside/a.py": "x", "outside/b.py": "x"})
    (tmp_path / "inside" / "link.py").symlink_to(tmp_path / "outside" / "b.py")
    (tmp_path / "inside" / "round").symlink_to(tmp_path)
    assert found(tmp_path / "inside") == ["a.py"]


@pytest.mark.parametrize(
    "name",
    [".env", ".env.local", "prod.env", "server.pem", "a/id_rsa", ".npmrc", "secrets.py", "credentials.ts"],
)
def test_files_that_hold_secrets_by_name(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["environment.py", "keys.py", "password_reset.py", "secret_santa.py"])
def test_files_that_only_sound_so(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "data",
    [
        b"KEY = '''-----BEGIN RSA PRIVATE KEY-----'''\n",
        b"aws = 'AKIAABCDEFGHIJKLMNOP'\n",
        b"token = 'ghp_" + b"a" * 36 + b"'\n",
        b"\x00\x01\x02",
        b"\xff\xfe",
        b"x" * 6000,
        b"a=1;b=2;" * 200 + b"\n",
    ],
)
def test_secrets_binary_and_minified_files_are_not_shown(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(data)
    assert read(tmp_path, "a.py") is None


def test_what_is_gone_is_not_shown(tmp_path: Path) -> None:
    assert read(tmp_path, "a.py") is None


def test_a_folder_within_a_repository_is_held_to_the_rules_above_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "local.py\n/service/made.py\nbuilt/\n",
            "service/.gitignore": "!kept/local.py\n",
            "service/local.py": "x",
            "service/made.py": "x",
            "service/kept/local.py": "x",
            "built/a.py": "x",
        },
    )
    assert found(tmp_path / "service") == ["kept/local.py", "local.py", "made.py"]  # no repository
    (tmp_path / ".git").mkdir()
    assert found(tmp_path / "service") == ["kept/local.py"]
    assert found(tmp_path / "built") == ["a.py"], "who asks for it wants it"


@pytest.mark.parametrize("line", ["!", "[z-a]", "a\\"])
def test_a_line_that_is_no_pattern_says_nothing_and_the_others_count(line: str, tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": f"\ufeffa.py\n{line}\nb.py\n", "a.py": "x", "b.py": "x", "c.py": "x"})
    assert found(tmp_path) == ["c.py"]


def test_any_name_may_come_up(tmp_path: Path) -> None:
    write(tmp_path, {"\U0001f600.py": "x", "a\nb.py": "x"})
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("x")
    (tmp_path / os.fsdecode(b"\xfe")).mkdir()
    (tmp_path / os.fsdecode(b"\xfe") / "a.py").write_text("x")
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / ".gitignore")
    assert found(tmp_path) == ["a\nb.py", "\U0001f600.py"]


def test_how_deep_folders_lie_costs_no_stack(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 200)
    deep.mkdir(parents=True)
    (deep / "a.py").write_text("x")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        assert len(found(tmp_path)) == 1
    finally:
        sys.setrecursionlimit(limit)
