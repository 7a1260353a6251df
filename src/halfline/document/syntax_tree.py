"""Source text as a syntax tree: which grammar reads a file, and the tree it makes. Needs the extra `syntax`.

Knows names of files, grammars and how to call them; what a node means is for those who ask. Without the extra,
`grammar_for` says so once by name (`MissingExtra`); `has_grammars` lets a caller choose to do without.

Parsing is bounded: text above `MAX_BYTES` is not parsed, and no tree takes longer than tree-sitter needs for one
pass (it is incremental and linear in practice: about 10 MB/s). A text with errors still has a tree, whose broken
places are `ERROR` or missing nodes (`tree.root_node.has_error`).
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from halfline.errors import MissingExtra

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

MAX_BYTES = 2 * 2**20


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language's grammar: its name, and where its package keeps it."""

    name: str
    module: str
    function: str = "language"


PYTHON = Grammar("python", "tree_sitter_python")
JAVASCRIPT = Grammar("javascript", "tree_sitter_javascript")
TYPESCRIPT = Grammar("typescript", "tree_sitter_typescript", "language_typescript")
TSX = Grammar("tsx", "tree_sitter_typescript", "language_tsx")
RUST = Grammar("rust", "tree_sitter_rust")
GO = Grammar("go", "tree_sitter_go")
JAVA = Grammar("java", "tree_sitter_java")
C = Grammar("c", "tree_sitter_c")
CPP = Grammar("cpp", "tree_sitter_cpp")

GRAMMARS = (PYTHON, JAVASCRIPT, TYPESCRIPT, TSX, RUST, GO, JAVA, C, CPP)

# `.h` is read as C++, whose grammar reads nearly all C as well.
_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyi"), PYTHON),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), TYPESCRIPT),
    ".tsx": TSX,
    ".rs": RUST,
    ".go": GO,
    ".java": JAVA,
    ".c": C,
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"), CPP),
}


def grammar_for(path: str) -> Grammar | None:
    """The grammar that reads a file of this name, by its suffix; None where none of ours does."""
    return _BY_SUFFIX.get(PurePosixPath(path.replace("\\", "/")).suffix.lower())


@cache
def has_grammars() -> bool:
    """Whether the extra `syntax` is installed."""
    return find_spec("tree_sitter") is not None and all(find_spec(each.module) for each in GRAMMARS)


def parse(source: bytes, grammar: Grammar, previous: "Tree | None" = None) -> "Tree | None":
    """The tree of a UTF-8 text; None when it is longer than `MAX_BYTES`. Offsets in it count bytes.

    `previous` is the tree of an earlier version that was told of every edit since (`Tree.edit`): what did not
    change is then not read again. Raises MissingExtra without the extra `syntax`.
    """
    if len(source) > MAX_BYTES:
        return None
    language = _language(grammar)
    from tree_sitter import Parser  # optional dependency: `_language` has said so when it is missing

    parser = Parser(language)
    return parser.parse(source) if previous is None else parser.parse(source, previous)


@cache
def _language(grammar: Grammar) -> "Language":
    try:
        from tree_sitter import Language  # optional dependency

        module = import_module(grammar.module)
    except ImportError as error:
        raise MissingExtra("reading syntax trees", "syntax") from error
    return Language(getattr(module, grammar.function)())
