"""What is wrong with an answer where it stands, seen without knowing the right one.

Each is a fault only where the true text has none: a file that does not parse as it was written says nothing of an
answer. None: cannot be told, for want of a grammar or for that reason. Syntax trees need the extra `syntax`.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from halfline.document.syntax_tree import grammar_for, parse
from halfline.quality.infilling.suites import Task

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_WORDS = re.compile(r"[^\W\d]\w*")


def breaks_syntax(task: Task, answer: str) -> bool | None:
    """Whether the file has a syntax error with the answer in it, and none with the true text."""
    right, judged = _tree(task, task.wanted), _tree(task, answer)
    if right is None or judged is None or right.root_node.has_error:
        return None
    return judged.root_node.has_error


def breaks_indentation(task: Task, answer: str) -> bool | None:
    """Whether Python refuses the file for its indentation; None for other languages."""
    if not task.path.endswith(".py") or _indentation_is_wrong(task, task.wanted):
        return None
    return _indentation_is_wrong(task, answer)


def repeats_suffix(task: Task, answer: str) -> bool | None:
    """Whether the answer ends with what stands behind the hole: the rest of its line, or the next line of text."""
    rest, _, below = task.suffix.partition("\n")
    lines = (line.strip() for line in below.splitlines())
    head = rest.strip() or next((line for line in lines if line), "")
    if not head or task.wanted.rstrip().endswith(head):
        return None
    return answer.rstrip().endswith(head)


def names_in(task: Task, answer: str) -> list[str]:
    """The answer's names in order, by the file's grammar; where we have none, all its words."""
    tree = _tree(task, answer)
    if tree is None:
        return _WORDS.findall(answer)
    start = len(task.prefix.encode())
    stop = start + len(answer.encode())
    return list(_names(tree.root_node, start, stop))


def _tree(task: Task, answer: str) -> "Tree | None":
    grammar = grammar_for(task.path)
    if grammar is None:
        return None
    return parse(f"{task.prefix}{answer}{task.suffix}".encode(errors="replace"), grammar)


def _names(root: "Node", start: int, stop: int) -> Iterator[str]:
    """Of leaves that reach into [start, stop): a name whose head the cursor cuts off is one too."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.end_byte <= start or node.start_byte >= stop:
            continue
        if node.child_count:
            waiting += reversed(node.children)
        elif node.type.endswith("identifier") and node.text is not None:
            yield node.text.decode(errors="replace")


def _indentation_is_wrong(task: Task, answer: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the code does: "is" with a literal, for one
            ast.parse(f"{task.prefix}{answer}{task.suffix}")
    except IndentationError:
        return True
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # another fault, or too deep to tell
        return False
    return False
