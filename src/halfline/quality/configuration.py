"""A way to serve, as a person writes it: settings that differ from the usual ones.

kv_format=int8,pipeline.prefix_tokens=512        on the command line
int8.toml                                        a file of the form of settings.toml
article                                          what the articles set (article.toml)
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from halfline.errors import BadSettings

ARTICLE = Path(__file__).parent / "article.toml"


def read_configuration(words: str) -> dict[str, object]:
    """Settings by dotted name; what they mean, and whether there are such, is for `settings.py` to say.

    Raises BadSettings.
    """
    if words == ARTICLE.stem:
        return _file(ARTICLE)
    if words.endswith(".toml"):
        return _file(Path(words))
    named: dict[str, str] = {}
    name = None
    for word in filter(None, words.split(",")):
        if "=" in word:
            name, _, named[name] = word.partition("=")
        elif name is not None:
            named[name] += f",{word}"
        else:
            raise BadSettings(f"{word!r} is no setting: say NAME=VALUE")
    return dict(named)


def _file(path: Path) -> dict[str, object]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadSettings(f"the configuration {path} cannot be read: {error}") from error
    named: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            named |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            named[name] = value
    return named
