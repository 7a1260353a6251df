from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app
from halfline.cli.surroundings import surroundings_of
from halfline.errors import BadSettings
from halfline.settings import load_settings
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

TOKENIZER = Tokenizer(
    VocabSpec(
        kind="bpe", tokens=tuple(byte_alphabet().values()), token_types=(1,) * 256, pre_tokenizer="gpt-2"
    )
)


def test_a_folder_is_read_once_and_then_only_what_changed(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("def f(): pass\n")
    (code / "secrets.py").write_text("x = 1\n")
    for says in ("1 files: 1 read, 0 as before", "1 files: 0 read, 1 as before"):
        result = CliRunner().invoke(app, ["index", str(code), "--data-dir", str(tmp_path / "data")])
        assert result.exit_code == 0 and says in result.output


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["index", str(tmp_path / "none"), "--data-dir", str(tmp_path)])
    assert result.exit_code != 0 and "is no folder" in result.output


def test_a_server_does_not_start_with_an_index_that_was_not_made(tmp_path: Path) -> None:
    known = load_settings({"data_dir": str(tmp_path), "context.index": str(tmp_path / "code")})
    with pytest.raises(BadSettings, match="halfline index"):
        surroundings_of(known, TOKENIZER, 256)


def test_where_nothing_is_chosen_other_files_are_as_clients_send_them(tmp_path: Path) -> None:
    settings = {"data_dir": str(tmp_path)}
    assert surroundings_of(load_settings(settings), TOKENIZER, 256) is not None
    settings |= {"context.chosen": "first"}
    assert surroundings_of(load_settings(settings), TOKENIZER, 256) is None
    known = load_settings(settings | {"context.compression": ("comments",)})
    assert surroundings_of(known, TOKENIZER, 256) is not None


def test_a_pass_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadSettings, match=r"context.compression|comments"):
        load_settings({"context.compression": ("shorten",)})
