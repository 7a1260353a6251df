"""Whether a bracket that was opened before the cursor is closed behind it already, told from indentation.

if (x) {              opened by the nearest line above that is not deeper
    f();█
}                     closed by the first line below that is not deeper
"""

from itertools import islice

from halfline.pipeline.postprocess.scanner import CLOSER_OF, Scanner
from halfline.pipeline.postprocess.surroundings import Surroundings, indentation


def is_missing(around: Surroundings, closer: str, column: int) -> bool:
    """Whether a block opened above in that column still wants its closer, on a line of its own in the same column."""
    lines = [around.line, *around.lines_above()] if not around.on_blank_line else around.lines_above()
    opener = next((line for line in lines if indentation(line) <= column), None)
    if opener is None or indentation(opener) != column:
        return False
    if closer not in {CLOSER_OF.get(character) for character in opener}:
        return False
    below = next((line for line in around.lines_below() if indentation(line) <= column), None)
    return below is None or not _closes(below, closer, column)


def is_next(around: Surroundings, closer: str, column: int) -> bool:
    """Whether the next line below is a closer in that column. With more of a block before it, it closes that one."""
    return any(_closes(line, closer, column) for line in islice(around.lines_below(), 1))


def _closes(line: str, closer: str, column: int) -> bool:
    return indentation(line) == column and line.lstrip().startswith(closer)


def is_closed_behind(around: Surroundings, closer: str, in_own_line: bool) -> bool:
    """Of a closer in the midst of a line, for a bracket of the cursor's line (`in_own_line`) or of one above."""
    below = next(around.lines_below(), None)
    if below is None or not below.lstrip().startswith(closer):
        return False
    column = indentation(around.line)
    if in_own_line:
        return indentation(below) == column
    opener = next((line for line in around.lines_above() if indentation(line) < column), None)
    return indentation(below) in {column, column if opener is None else indentation(opener)}


def num_open_above(around: Surroundings) -> int:
    """Brackets that are open at the beginning of the cursor's line, as far as the line knows that encloses it."""
    column = indentation(around.line + "x" if around.on_blank_line else around.line)
    enclosing: list[str] = []
    for line in reversed(around.above.split("\n")):
        enclosing.append(line)
        if line.strip() and indentation(line) < column:
            break
    return len(Scanner(around.language).read("\n".join(reversed(enclosing))).open)
