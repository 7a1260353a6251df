"""Places and edits of an editor, in its own units, are places and edits of the text, whatever is written in it."""

import re
from random import Random

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from halfline.lsp.documents import EditorDocument
from halfline.lsp.language_server import offset_of

TEXT = (
    "# ünïcode, 日本語のコメント, 👩‍👩‍👧 and 🇩🇪\r\n"
    "def größe(x):\r\n\treturn {'ключ': x, '鍵': [1, 22, 333]}\r\n\r\n"
    "\tif x:\r\t\tprint(f'{x:>10}\\t…')  # old Macintosh\n"
    "\x0c\nclass Form:  # a page break above\n    feed = '\u2028\x85\x0b\x1c\x1d'  # 😀\n\n    end = 1"
)
UNITS = {
    "utf-8": lambda text: len(text.encode()),
    "utf-16": lambda text: len(text.encode("utf-16-le")) // 2,
    "utf-32": len,
}
PLACES = [place for place in range(len(TEXT) + 1) if TEXT[place - 1 : place + 1] != "\r\n"]


def document(text: str, encoding: str) -> EditorDocument:
    codec = PositionCodec(encoding=types.PositionEncodingKind(encoding))
    return EditorDocument(
        "file:///a.py", text, sync_kind=types.TextDocumentSyncKind.Incremental, position_codec=codec
    )


def position(text: str, place: int, encoding: str) -> types.Position:
    """As an editor tells it."""
    starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text[:place]))]
    return types.Position(len(starts) - 1, UNITS[encoding](text[starts[-1] : place]))


@pytest.mark.parametrize("encoding", UNITS)
def test_every_place_of_the_editor_is_that_place_of_the_text(encoding: str) -> None:
    opened = document(TEXT, encoding)
    assert [offset_of(opened, position(TEXT, place, encoding)) for place in PLACES] == PLACES


@pytest.mark.parametrize("encoding", UNITS)
def test_what_the_editor_changes_is_changed_there(encoding: str) -> None:
    random = Random(1)
    for place in PLACES:
        start, stop = sorted((place, random.choice(PLACES)))
        opened = document(TEXT, encoding)
        span = types.Range(position(TEXT, start, encoding), position(TEXT, stop, encoding))
        opened.apply_change(types.TextDocumentContentChangePartial(range=span, text="🧑\x0c"))
        assert opened.source == TEXT[:start] + "🧑\x0c" + TEXT[stop:]


def test_a_text_that_ends_with_a_line_break_has_a_place_behind_it() -> None:
    opened = document("a😀\n", "utf-16")
    assert offset_of(opened, types.Position(1, 0)) == 3
    opened.apply_change(
        types.TextDocumentContentChangePartial(
            range=types.Range(types.Position(1, 0), types.Position(1, 0)), text="b"
        )
    )
    assert opened.source == "a😀\nb"
