"""A configuration is settings by dotted name, from words or from a file."""

from pathlib import Path

import pytest

from halfline.errors import BadSettings
from halfline.quality.configuration import read_configuration


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


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="'fast' is no setting"):
        read_configuration("fast")
    (tmp_path / "bad.toml").write_text("= 1")
    for name in ("bad.toml", "none.toml"):
        with pytest.raises(BadSettings, match=name):
            read_configuration(str(tmp_path / name))
