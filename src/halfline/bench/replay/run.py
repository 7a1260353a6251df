"""A replay: places in recorded sessions, block by block, every server in turn, the others frozen.

    block    1            2            3
    ours     25 keys          25 keys  25 keys
    theirs           25 keys  25 keys           25 keys     …

What is measured a minute apart on a shared machine is not comparable; two turns of the same block are. Each server
gets the same keystrokes in the same order, and turns begin with another one each time.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.dialects import WINDOW_LINES, Answer
from halfline.bench.replay.oracle import Oracle
from halfline.bench.replay.side import Side
from halfline.bench.replay.trace import Stretch
from halfline.bench.replay.typed_next import MOST_TRANSACTIONS, typed_next
from halfline.bench.replay.typist import Pace

BLOCK_KEYSTROKES = 25

KNOWN = ("exact", "typed")

Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One keystroke that every side was asked about.

    `block` counts turns; keystrokes of a block were asked in the same seconds. `is_long`: more lines stand before the
    cursor than the usual window has. `is_first`: of its place, so that nobody can know anything. `typed`: what the user
    typed from there on.
    """

    place: int
    path: str
    transaction: int
    block: int
    is_long: bool
    is_first: bool
    typed: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens up to the cursor: `computed` by the server for this keystroke, a word that the model was made to say first
    among them; `unknown` to everybody, as they follow the first that differs from all its place's earlier prompts.
    """

    computed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A side's answers, in the keystrokes' order, and what was counted of each; None where the prompt is not known.
    `total_tokens`: what the server ran in all, shown or not.
    """

    name: str
    answers: list[Answer]
    counted: list[Counted | None]
    cpu_s: float | None
    total_tokens: int | None


@dataclass(frozen=True, slots=True)
class Replayed:
    pace: Pace
    num_typists: int
    asked: list[Asked]
    outcomes: list[Outcome]


def run_replay(
    stretches: Sequence[Stretch],
    sides: Sequence[Side],
    pace: Pace,
    num_typists: int,
    encode: Encode | None,
    advanced: Callable[[int], None] = lambda num_keystrokes: None,
    late: Callable[[float], bool] = lambda share: False,
) -> Replayed:
    """Play all stretches, `num_typists` of them at a time. `encode` None: nobody knows how prompts become tokens.

    `late` tells whether a share of the time that there is has passed: places share it evenly, and no block begins when
    its place's part is over. Interrupted, it ends with the blocks that every side has played. Raises ReplayFailed and
    PeerFailed.
    """
    asked: list[Asked] = []
    answers: dict[str, list[Answer]] = {side.name: [] for side in sides}
    counted: dict[str, list[Counted | None]] = {side.name: [] for side in sides}
    before = {side.name: side.total_tokens() for side in sides}

    def play() -> None:
        turn = 0
        for start in range(0, len(stretches), num_typists):
            places = range(start, min(start + num_typists, len(stretches)))
            oracles = {(side.name, place): Oracle() for side in sides for place in places}
            for blocks in _blocks({place: stretches[place] for place in places}):
                if late(places.stop / len(stretches)):
                    break
                played = _turns(sides, blocks, pace, turn)
                for place, block in blocks.items():
                    asked.extend(_asked(place, stretches[place], keystroke, turn) for keystroke in block)
                    for side in sides:
                        known = played[side.name][place]
                        oracle = oracles[side.name, place]
                        counted[side.name] += [_counted(oracle, each, encode) for each in known]
                        # Prompts are megabytes, and no part of the result.
                        answers[side.name] += [dataclasses.replace(each, prompt=None) for each in known]
                turn += 1
                advanced(sum(map(len, blocks.values())))

    try:
        play()
    except (KeyboardInterrupt, SystemExit):
        if not asked:
            raise
    outcomes = [
        Outcome(
            side.name,
            answers[side.name],
            counted[side.name],
            side.cpu_s,
            _difference(before[side.name], side.total_tokens()),
        )
        for side in sides
    ]
    return Replayed(pace, num_typists, asked, outcomes)


def _blocks(stretches: dict[int, Stretch]) -> Iterator[dict[int, Sequence[Keystroke]]]:
    """The next keystrokes of every place that has some left."""
    keystrokes = {place: stretch.keystrokes() for place, stretch in stretches.items()}
    while True:
        taken = {place: list(islice(each, BLOCK_KEYSTROKES)) for place, each in keystrokes.items()}
        blocks: dict[int, Sequence[Keystroke]] = {place: block for place, block in taken.items() if block}
        if not blocks:
            return
        yield blocks


def _turns(
    sides: Sequence[Side], blocks: dict[int, Sequence[Keystroke]], pace: Pace, turn: int
) -> dict[str, dict[int, list[Answer]]]:
    """Every side's answers by place. Who follows another side comes after it."""
    leading = [side for side in sides if side.follows is None]
    first = turn % len(leading)
    played: dict[str, dict[int, list[Answer]]] = {}
    for side in (*leading[first:], *leading[:first], *(side for side in sides if side.follows is not None)):
        given = blocks if side.follows is None else _prompts_of(played[side.follows], blocks)
        played[side.name] = side.play(given, pace)
    return played


def _prompts_of(
    played: dict[int, list[Answer]], blocks: dict[int, Sequence[Keystroke]]
) -> dict[int, Sequence[Keystroke]]:
    """The same keystrokes, as if the document began where the other side's prompt did."""
    return {
        place: [
            keystroke if answer.prompt is None else dataclasses.replace(keystroke, prefix=answer.prompt)
            for keystroke, answer in zip(block, played[place], strict=True)
        ]
        for place, block in blocks.items()
    }


def _asked(place: int, stretch: Stretch, keystroke: Keystroke, turn: int) -> Asked:
    later = stretch.trace.transactions[
        keystroke.transaction + 1 : keystroke.transaction + 1 + MOST_TRANSACTIONS
    ]
    return Asked(
        place=place,
        path=stretch.trace.path,
        transaction=keystroke.transaction,
        block=turn,
        is_long=keystroke.prefix.count("\n") >= WINDOW_LINES,
        is_first=keystroke.transaction == stretch.first,
        typed=typed_next(len(keystroke.prefix), later),
    )


def _counted(oracle: Oracle, answer: Answer, encode: Encode | None) -> Counted | None:
    if encode is None or answer.prompt is None or answer.reused_tokens is None:
        return None
    token_ids = encode(answer.prompt)
    unknown = oracle.unknown(token_ids)
    # What was asked before, or typed as predicted, is not run again, whatever of it is in the cache.
    return Counted(0 if answer.tier in KNOWN else len(token_ids) - answer.reused_tokens, unknown)


def _difference(before: int | None, after: int | None) -> int | None:
    """`before` None: a server that has run nothing yet may not name its counters."""
    return None if after is None else after - (before or 0)
