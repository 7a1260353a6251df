"""Which chunks of other files help to read a text: those that share its rarer names."""

import math
from collections import Counter
from collections.abc import Sequence

from halfline.context.chunks.chunk_tokens import ChunkTokens
from halfline.context.chunks.names import names_in
from halfline.request import Part


def filled_context(parts: Sequence[Part], around: str, max_tokens: int, tokens: ChunkTokens) -> str:
    """Chunks of the parts, under their files' names and in their order; the most helpful ones, as many as fit.

    A name weighs the more the fewer chunks have it. A chunk that shares no name with `around` comes last, and among
    equals the earlier one first. Raises UnencodableText.
    """
    chunks = [
        (number, chunk) for number, part in enumerate(parts) for chunk in tokens.chunks(part.text, part.path)
    ]
    names = [names_in(chunk) for _, chunk in chunks]
    num_chunks_with = Counter(name for each in names for name in each)
    wanted = names_in(around)

    def worth(position: int) -> float:
        shared = names[position] & wanted
        return sum(math.log((1 + len(chunks)) / num_chunks_with[name]) for name in shared)

    chosen: list[int] = []
    headed: set[int] = set()  # parts whose name is paid for
    room = max_tokens
    for position in sorted(range(len(chunks)), key=lambda each: (-worth(each), each)):
        number, chunk = chunks[position]
        cost = len(tokens.of(_whole_lines(chunk), "context"))
        if number not in headed:
            cost += len(tokens.of(_heading(parts[number]), "context"))
        if cost <= room:
            room -= cost
            chosen.append(position)
            headed.add(number)
    text = ""
    last: int | None = None
    for position in sorted(chosen):
        number, chunk = chunks[position]
        if number != last:
            text += _heading(parts[number])
        text += _whole_lines(chunk)
        last = number
    return text


def _whole_lines(chunk: str) -> str:
    return chunk if chunk.endswith("\n") else f"{chunk}\n"


def _heading(part: Part) -> str:
    return f"--- {part.path or 'untitled'}\n"
