"""A configuration is settings by dotted name, from words or from a file."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app
from halfline.errors import BadSettings
from halfline.quality.configuration import read_configuration
from halfline.quality.gate_file import read_gate_file
from halfline.settings import load_settings


def test_words_and_a_file_name_the_same_settings(tmp_path: Path) -> None:
    file = tmp_path / "int8.toml"
    file.write_text('kv_format = "int8"\n[pipeline]\nprefix_tokens = 512\n')
    assert read_configuration(str(file)) == {"kv_format": "int8", "pipeline.prefix_tokens": 512}
    assert read_configuration("kv_format=int8,pipeline.prefix_tokens=512") == {
        "kv_format": "int8",
        "pipeline.prefix_tokens": "512",
    }
    assert read_configuration("context.compression=comments,duplicates,kv_format=f16") == {
        "context.compression": "comments,duplicates",
        "kv_format": "f16",
    }
    assert read_configuration("") == {}


def test_the_articles_parameters_go_by_their_name_and_are_a_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "article.toml"
    file.write_text(CliRunner().invoke(app, ["settings", "article"]).stdout)
    chosen = read_configuration("article")
    assert read_configuration(str(file)) == chosen
    for known in (load_settings(chosen), load_settings({}, file)):
        assert known.kv_format == "int8"
        assert known.context.compression == ("entropy_article", "duplicates", "prune_words_article")
    assert read_configuration(read_gate_file().arm("article").candidate) == chosen


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="'fast' is no setting"):
        read_configuration("fast")
    (tmp_path / "bad.toml").write_text("= 1")
    for name in ("bad.toml", "none.toml"):
        with pytest.raises(BadSettings, match=name):
            read_configuration(str(tmp_path / name))
