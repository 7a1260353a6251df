"""Lengths of the requests that a recorded editing session would make, for replays that only account for memory.

A request is one keystroke: its prompt the tokens before the cursor, as many as an editor's window takes, its answer
what was typed there next, to the end of the line. No model runs.
"""

from collections.abc import Callable
from pathlib import Path

from halfline.bench.allocation import Request
from halfline.bench.replay.trace import applied, load
from halfline.bench.replay.typed_next import MOST_TRANSACTIONS, typed_next

_TOKEN_CHARACTERS = 8  # more than a token of code has on average: that much of a long text is looked at
_FIRST_TRANSACTION = 3000  # before that the file is shorter than a window


def trace_requests(
    file: Path, count: int, count_tokens: Callable[[str], int], *, max_prompt: int, max_answer: int
) -> list[Request]:
    """One for each of `count` keystrokes, evenly spread over a session.

    Raises OSError or ValueError for a file that is none, or too short to have as many.
    """
    trace = load(file, file.name)
    transactions, text = trace.transactions, trace.start
    last = len(transactions) - 1
    if last < _FIRST_TRANSACTION + count:
        raise ValueError(f"{file.name} has {len(transactions)} transactions")
    wanted = {_FIRST_TRANSACTION + (last - _FIRST_TRANSACTION) * each // count for each in range(count)}
    requests = []
    for number, transaction in enumerate(transactions):
        text = applied(text, transaction)
        if number in wanted:
            cursor = transaction[-1].place + len(transaction[-1].inserted)
            window = text[:cursor][-max_prompt * _TOKEN_CHARACTERS :]
            later = transactions[number + 1 : number + 1 + MOST_TRANSACTIONS]
            line = typed_next(cursor, later).partition("\n")[0]
            requests.append(
                Request(
                    prompt=min(max_prompt, max(1, count_tokens(window))),
                    answer=min(max_answer, max(1, count_tokens(line))),
                )
            )
    return requests
