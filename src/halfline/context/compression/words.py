"""Words of code, told apart by what must not be lost: names, keywords, operators, brackets, literals, comments.

One rough lexer for all languages of the C and Python kinds: it decides what is worth keeping, not what compiles.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from halfline.context.compression.passes import Budget, LinedPart

Kind = Literal["name", "keyword", "literal", "bracket", "operator", "comment", "space"]

KEYWORDS = frozenset(
    "and as assert async await break case catch class const continue def default del elif else enum except export"
    " extends extern false final finally fn for from func function global go if impl implements import in interface"
    " is lambda let loop match mod mut new nil none nonlocal not null or package pass private protected pub public"
    " raise return select self static struct super switch this throw throws trait true try type typeof union unsafe"
    " use var void where while with yield False None True".split()
)

_WORD = re.compile(
    r"""(?P<comment>\#.*|//.*)
      | (?P<literal>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`|\d[\w.]*)
      | (?P<name>[^\W\d]\w*)
      | (?P<bracket>[()\[\]{}])
      | (?P<space>\s+)
      | (?P<operator>.)""",
    re.VERBOSE,
)

NEAR_LINES = 12
"""Before the cursor; a third as many behind it."""

_SILENT = re.compile(
    r"""\#.*|//.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`|(?<!\w)\d[\w.]*""",
)
_NAME = re.compile(r"[^\W\d]\w{2,}")

_COMMON_SHARE = 1 / 16  # of the parts' lines: a name in more of them tells none apart


class Word(NamedTuple):
    kind: Kind
    text: str


def words(line: str) -> Iterator[Word]:
    """They spell the line. A piece that begins within a string is cut up wrongly, and none of it is lost."""
    for found in _WORD.finditer(line):
        kind = found.lastgroup
        text = found[0]
        if kind == "name" and text in KEYWORDS:
            yield Word("keyword", text)
        else:
            yield Word(kind, text)  # type: ignore[arg-type]  # the groups' names are the kinds


def names(text: str) -> list[str]:
    """Those of at least three characters; the same as `words` finds, in a tenth of the time."""
    return [name for name in _NAME.findall(_SILENT.sub(" ", text)) if name not in KEYWORDS]


def names_near(parts: Sequence[LinedPart], budget: Budget) -> frozenset[str]:
    """Names around the cursor that are also in the parts, and not in all too many of their lines."""
    behind = budget.behind.splitlines()[: NEAR_LINES // 3]
    near = set(names("\n".join([*budget.before.splitlines()[-NEAR_LINES:], *behind])))
    lines = [line.text for part in parts for line in part.lines]
    found = Counter(name for line in lines for name in near.intersection(names(line)))
    most = max(2.0, len(lines) * _COMMON_SHARE)
    return frozenset(name for name, count in found.items() if count <= most)


_DEFINES = re.compile(
    r"\s*(?:@|(?:(?:pub|public|private|protected|static|abstract|final|async|export|default|unsafe)(?:\([^)]*\))?\s+)*"
    r"(?:def|class|fn|func|function|struct|enum|trait|impl|interface|type|mod|import|from|use|package|namespace|const)\b)"
)


def holds_structure(line: str) -> bool:
    """Whether it defines or imports something, or opens or closes a block: without it others make no sense."""
    if _DEFINES.match(line):
        return True
    brackets = [word.text for word in words(line) if word.kind == "bracket"]
    opened = sum(each in "([{" for each in brackets)
    return 2 * opened != len(brackets) or line.rstrip().endswith((":", "{"))
