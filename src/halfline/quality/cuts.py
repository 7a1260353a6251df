"""How often the rules of post-processing cut what is right, measured on files that people wrote.

A file with a hole, and as the model's answer what really stood in the hole and behind it:

    line    the rest of a line                    def f(x█): return …
    span    a part of a line                      f(█, b)
    block   an indented block, the file goes on   if x:█⏎…
    open    the same, and the file ends there

A rule that ends the answer before the hole's end cut wrongly. One that ends it at the hole's end did its work; one that
lets it run on into what stands behind the hole has missed it.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Literal

from halfline.pipeline.postprocess.languages import PROSE, UNKNOWN, language_of
from halfline.pipeline.postprocess.postprocessing import editor_filters, editor_rewrites
from halfline.pipeline.postprocess.surroundings import indentation, surroundings
from halfline.request import Document
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Scored

KINDS = ("line", "span", "block", "open")

_MIN_BYTES = 500
_MAX_BYTES = 100_000
_MAX_BLOCK_CHARACTERS = 800
_OVERRUN_CHARACTERS = 400  # of what stands behind the hole, that the answer goes on with


@dataclass(frozen=True, slots=True)
class Hole:
    """`answer` is what a perfect model writes that does not stop; the first `length` characters of it belong in."""

    kind: str
    document: Document
    answer: str
    length: int


@dataclass(frozen=True, slots=True)
class Judged:
    """`rules` are those that fired, `rewritten` says that characters changed."""

    language: str
    kind: str
    end: Literal["early", "right", "late"]
    rules: tuple[str, ...]
    rewritten: bool


def holes(text: str, path: str, count: int, chance: random.Random) -> Iterator[Hole]:
    """About `count` of each kind, at random places of one file."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    solid = [i for i, line in enumerate(lines) if line.strip()]
    openers = [i for i, j in pairwise(solid) if j == i + 1 and indentation(lines[j]) > indentation(lines[i])]
    for number in chance.sample(solid, min(count, len(solid))):
        line = lines[number].rstrip()
        blanks = len(line) - len(line.lstrip())
        cursor = chance.randint(blanks, len(line) - 1)
        yield _hole("line", text, path, starts[number] + cursor, starts[number] + len(line))
        stop = chance.randint(cursor + 1, len(line))
        if line[stop:].strip():
            yield _hole("span", text, path, starts[number] + cursor, starts[number] + stop)
    for number in chance.sample(openers, min(count, len(openers))):
        block_stop = _block_stop(lines, number)
        start = starts[number] + len(lines[number].rstrip())
        stop = starts[block_stop - 1] + len(lines[block_stop - 1].rstrip())
        if stop - start <= _MAX_BLOCK_CHARACTERS:
            yield _hole("block", text, path, start, stop)
            yield _hole("open", text, path, start, stop, ends=True)


def judge(hole: Hole) -> Judged:
    """What the rules, all together, make of the true answer."""
    around = surroundings(hole.document)
    reader = Reader(_Characters(), editor_filters(around), rewrites=editor_rewrites(around))
    shown = ""
    for character in hole.answer:
        piece = reader.push(Scored(ord(character)))
        shown += piece.text
        if reader.stopped:
            break
    else:
        piece = reader.finish()
        shown += piece.text
    cuts = [cut.rule for cut in piece.cuts if cut.rule != "trailing_blanks"]
    right = hole.answer[: hole.length].rstrip()
    kept = shown.rstrip()
    end: Literal["early", "right", "late"]
    if len(kept) < len(right):
        end = "early"
    else:
        end = "right" if len(kept) == len(right) else "late"
    rewritten = not hole.answer.startswith(kept)
    return Judged(language_of(hole.document.path).name, hole.kind, end, tuple(cuts), rewritten)


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of `num_answers`; by rule, how many answers it cut too early, alone or with others."""

    num_answers: int
    early: float
    right: float
    late: float
    rewritten: float
    early_by_rule: Mapping[str, int]

    def record(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def tally(judged: Sequence[Judged]) -> Tally:
    ends = Counter(each.end for each in judged)
    count = max(1, len(judged))
    return Tally(
        len(judged),
        ends["early"] / count,
        ends["right"] / count,
        ends["late"] / count,
        sum(each.rewritten for each in judged) / count,
        Counter(rule for each in judged if each.end == "early" for rule in each.rules),
    )


def source_files(paths: Sequence[Path], max_per_language: int, seed: int) -> list[Path]:
    """Files of known languages, of a size that people write; the same seed draws the same. Raises OSError."""
    by_language: defaultdict[str, list[Path]] = defaultdict(list)
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            language = language_of(file.name)
            if language in (UNKNOWN, PROSE) or not file.is_file():
                continue
            if _MIN_BYTES <= file.stat().st_size <= _MAX_BYTES:
                by_language[language.name].append(file)
    chance = random.Random(seed)
    return [
        file
        for _, files in sorted(by_language.items())
        for file in chance.sample(files, min(max_per_language, len(files)))
    ]


def judge_files(files: Sequence[Path], holes_per_file: int, seed: int) -> list[Judged]:
    """Raises OSError."""
    judged = []
    for file in files:
        # Each file's holes are its own, whichever others are there.
        chance = random.Random(f"{seed} {file.name}")
        text = file.read_bytes().decode("utf-8", "replace")
        judged += [judge(hole) for hole in holes(text, file.name, holes_per_file, chance)]
    return judged


class _Characters:
    """A detokenizer whose tokens are characters."""

    def push(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


def _hole(kind: str, text: str, path: str, start: int, stop: int, ends: bool = False) -> Hole:
    document = Document(text[:start], "" if ends else text[stop:], path)
    return Hole(kind, document, text[start : stop + _OVERRUN_CHARACTERS], stop - start)


def _block_stop(lines: Sequence[str], opener: int) -> int:
    """The line behind the last one that is deeper than the opener."""
    column, stop = indentation(lines[opener]), opener + 1
    for number in range(opener + 1, len(lines)):
        if lines[number].strip():
            if indentation(lines[number]) <= column:
                break
            stop = number + 1
    return stop
