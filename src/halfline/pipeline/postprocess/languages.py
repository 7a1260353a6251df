"""What the rules have to know of a language: how its strings, comments and blocks look. Found by a file's name.

No grammar: enough to see where brackets count, and where a statement or a block goes on. What is not in the table is
taken for code with brackets and strings in double quotes; prose has not even these.
"""

from dataclasses import dataclass, replace
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """`quotes` begin and end strings of one line, `long_quotes` such of many. `comments` go to the line's end.

    `goes_on` are words that carry a statement on at its own indentation (else), `labels` such that do so in its
    brackets (case); `heads` begin a line that belongs to the statement below it (@decorator). `ends_with` ends a
    statement wherever its lines are indented; None: indentation does. `list_item` begins lines that belong to a line
    above in the same column, `directive` such as stand at the margin wherever they belong.
    """

    name: str
    quotes: str = '"'
    long_quotes: tuple[str, ...] = ()
    escapes: bool = True
    comments: tuple[str, ...] = ()
    block_comment: tuple[str, str] | None = None
    brackets: bool = True
    goes_on: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    ends_with: str | None = None
    list_item: str | None = None
    directive: str | None = None
    plain_text: bool = False
    """Values may be text without quotes: quotes and brackets count where a value begins only."""


_C_LIKE = Language(
    name="c-like",
    quotes="\"'",
    comments=("//",),
    block_comment=("/*", "*/"),
    goes_on=("else", "catch", "finally"),
    labels=("case", "default"),
)

PROSE = Language(name="prose", quotes="", brackets=False)
UNKNOWN = Language(name="unknown", goes_on=("else", "end"))

PYTHON = Language(
    name="python",
    quotes="\"'",
    long_quotes=('"""', "'''"),
    comments=("#",),
    goes_on=("else", "elif", "except", "finally"),
    heads=("@",),
)
TYPESCRIPT = replace(_C_LIKE, name="typescript", long_quotes=("`",), heads=("@",))
RUST = replace(
    _C_LIKE,
    name="rust",
    quotes="",
    long_quotes=('"',),
    goes_on=("else", "where"),
    heads=("#[",),
)
GO = replace(_C_LIKE, name="go", long_quotes=("`",), goes_on=("else",))
JAVA = replace(_C_LIKE, name="java", long_quotes=('"""',), heads=("@",))
CPP = replace(
    _C_LIKE,
    name="cpp",
    labels=("case", "default", "public", "protected", "private"),
    heads=("template", "[["),
    directive="#",
)
CSHARP = replace(_C_LIKE, name="csharp", heads=("[",), directive="#")
YAML = Language(name="yaml", quotes="\"'", comments=("#",), list_item="-", plain_text=True)
SQL = Language(
    name="sql",
    quotes="",
    long_quotes=("'", '"'),
    escapes=False,
    comments=("--",),
    block_comment=("/*", "*/"),
    ends_with=";",
)
SHELL = Language(
    name="shell", brackets=False, comments=("#",), goes_on=("else", "elif", "fi", "done", "esac")
)
RUBY = Language(
    name="ruby", quotes="\"'", comments=("#",), goes_on=("else", "elsif", "rescue", "ensure", "end", "when")
)

_BY_EXTENSION = {
    extension: language
    for language, extensions in (
        (PYTHON, "py pyi pyx"),
        (TYPESCRIPT, "ts tsx js jsx mjs cjs mts cts vue svelte"),
        (RUST, "rs"),
        (GO, "go"),
        (JAVA, "java kt kts scala groovy swift dart"),
        (CPP, "c h cc cpp cxx hh hpp hxx ipp cu inl"),
        (CSHARP, "cs"),
        (YAML, "yaml yml"),
        (SQL, "sql psql ddl"),
        (SHELL, "sh bash zsh"),
        (RUBY, "rb"),
        (PROSE, "md rst txt adoc tex"),
    )
    for extension in extensions.split()
}


def language_of(path: str | None) -> Language:
    if path is None:
        return UNKNOWN
    return _BY_EXTENSION.get(PurePosixPath(path.replace("\\", "/")).suffix[1:].lower(), UNKNOWN)
