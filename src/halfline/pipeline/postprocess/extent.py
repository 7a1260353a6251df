"""How far an answer may go: to the end of its line, of a statement, or of the block that the cursor stands in.

Decided from indentation and from what stands around the cursor, without a grammar:

    foo(█, b)         line       something follows on the line
    return x + █      statement  the line, and the lines that belong to it
    if x:█            statement  the line, and its body
    {█}               statement  the editor closed a block that is still empty
    ⎵⎵⎵⎵█             block      nothing follows in the block: all that is left of it
    ⎵⎵⎵⎵█             statement  the block goes on below: one more statement in it
"""

from dataclasses import dataclass
from typing import Literal

from halfline.pipeline.postprocess.scanner import CLOSER_OF, CLOSERS
from halfline.pipeline.postprocess.surroundings import Surroundings, indentation


@dataclass(frozen=True, slots=True)
class Extent:
    """`indent` is the columns at which the cursor's line begins; where that is blank, the answer may begin deeper."""

    goes_to_end_of: Literal["line", "statement", "block"]
    indent: int


def extent(around: Surroundings) -> Extent:
    if around.on_blank_line:
        column = indentation(around.line + "x")
        below = next(around.lines_below(), None)
        if around.rest.strip():
            return Extent("line", column)
        ends_here = below is None or indentation(below) < column
        return Extent("block" if ends_here else "statement", column)
    column = indentation(around.line)
    rest = around.rest.strip()
    if not rest or (rest[0] in CLOSERS and CLOSER_OF.get(around.line.rstrip()[-1]) == rest[0]):
        return Extent("statement", column)
    return Extent("line", column)
