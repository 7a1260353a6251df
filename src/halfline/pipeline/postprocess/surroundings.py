"""What the rules know of the document: the lines around the cursor, and how the file is written.

A pure function of the document, small whatever its size.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from halfline.pipeline.postprocess.languages import Language, language_of
from halfline.request import Document

_LINE_CHARACTERS = 4096
_ABOVE_CHARACTERS = 8192
_BELOW_CHARACTERS = 4096
_PARITY_CHARACTERS = 1 << 16  # counting quotes in more takes too long for a keystroke

TAB_WIDTH = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`line` is what stands before the cursor in its line, `rest` behind it; `above` and `below` are the texts before
    and behind that line, cut to a few thousand characters. No carriage returns. `inside` is what ends the string or
    comment of many lines in which the line begins, None if in none.

    `newline` is the document's own; None: it shows none.
    """

    language: Language
    line: str
    rest: str
    above: str
    below: str
    inside: str | None
    newline: str | None

    @property
    def on_blank_line(self) -> bool:
        """Whether nothing but blanks stands before the cursor in its line."""
        return not self.line.strip()

    def lines_above(self) -> Iterator[str]:
        """Those that are not blank, the nearest first."""
        return (line for line in reversed(self.above.split("\n")) if line.strip())

    def lines_below(self) -> Iterator[str]:
        """Those that are not blank, the nearest first; the last one may be cut."""
        return (line for line in self.below.split("\n") if line.strip())


def surroundings(document: Document) -> Surroundings:
    language = language_of(document.path)
    start = document.prefix.rfind("\n") + 1
    stop = document.suffix.find("\n")
    stop = len(document.suffix) if stop < 0 else stop
    above = document.prefix[max(0, start - _ABOVE_CHARACTERS) : start]
    below = document.suffix[stop + 1 : stop + 1 + _BELOW_CHARACTERS]
    return Surroundings(
        language=language,
        line=document.prefix[start:][-_LINE_CHARACTERS:],
        rest=document.suffix[: min(stop, _LINE_CHARACTERS)].removesuffix("\r"),
        above=above.replace("\r\n", "\n"),
        below=below.replace("\r\n", "\n"),
        inside=_inside(document.prefix[:start], language),
        newline=_newline(document, start, stop),
    )


def width(blanks: str) -> int:
    """Columns that a line's indentation takes."""
    return len(blanks.expandtabs(TAB_WIDTH))


def indentation(line: str) -> int:
    return width(line[: len(line) - len(line.lstrip())])


def _inside(text: str, language: Language) -> str | None:
    """The string or comment of many lines in which the text ends, told from quotes' parity."""
    if language.block_comment is not None:
        begin, end = language.block_comment
        if text.rfind(begin, -_PARITY_CHARACTERS) > text.rfind(end, -_PARITY_CHARACTERS):
            return end
    if len(text) > _PARITY_CHARACTERS:
        return None
    # A quote of one character that begins strings of one line as well says nothing by its parity.
    quotes = [quote for quote in language.long_quotes if len(quote) == 3 or quote == "`"]
    if not any(text.count(quote) % 2 for quote in quotes):
        return None
    inside = None
    for found in re.finditer("|".join(quotes), text):  # one kind may stand within the other
        inside = found[0] if inside is None else None if inside == found[0] else inside
    return inside


def _newline(document: Document, start: int, stop: int) -> str | None:
    """The nearest line end's, before the cursor if there is one."""
    if start:
        return "\r\n" if document.prefix.endswith("\r\n", 0, start) else "\n"
    if stop < len(document.suffix):
        return "\r\n" if document.suffix.endswith("\r", 0, stop) else "\n"
    return None


_INDENTED = re.compile(r"^([ \t]+)[^\s*]", re.MULTILINE)


def level(around: Surroundings) -> str | None:
    """What the document indents by: a tab, or the commonest step in spaces (2 to 8). None: it does not, or its lines do
    not agree.
    """
    above = around.above[-_LINE_CHARACTERS:] + around.line
    blanks = _INDENTED.findall(above)[-64:] + _INDENTED.findall(around.below)[:16]
    if not blanks:
        return None
    if any("\t" in each for each in blanks):
        return "\t" if all(each[0] == "\t" for each in blanks) else None
    widths = [0, *(len(each) for each in blanks)]
    steps = [abs(b - a) for a, b in pairwise(widths) if 2 <= abs(b - a) <= 8]
    return " " * max(set(steps), key=lambda step: (steps.count(step), -step)) if steps else None
