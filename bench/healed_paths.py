"""Does greedy healing walk into a dead end, and would the likelier way to spell the cut word have been better?

    python -m bench.healed_paths MODEL.gguf TRACE.json.gz [--lines N] [--minutes M] [--write FILE.json]

Greedy healing takes the best token that agrees with the word before the cursor, then the next. Where the first spells
only a part of the word, the rest is forced although the model may think little of it. The other way judges spellings as
a whole: of up to `BEAM` at a time the one with the largest log-probability of all its tokens, the one across the cursor
among them. Where the first token spells all of the word both are the same, since no other spelling can be likelier.

Cursors stand at random places of lines of the trace's final document and of Python's standard library. Where the two
differ both are written on greedily to the line's end, `MOST_TOKENS` at most, and compared with the true rest of the
line. The last line is JSON.
"""

import argparse
import dataclasses
import json
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from bench.healing_quality import Reader
from bench.window_quality import Cursor, library_cursors, trace_cursors
from halfline.bench.steps import blocks_for
from halfline.document.encoded_text import TextEncoder
from halfline.document.healing_point import healing_point
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.text.spellings import Spellings
from halfline.text.tokenizer import Tokenizer

BEAM = 4
MOST_TOKENS = 24
_CURSORS_PER_LINE = 8
_WINDOW_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Spelling:
    """Tokens from the prompt on, what of the forced text is left behind them, and their log-probability."""

    token_ids: tuple[int, ...]
    left: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Case:
    """Where the two differ: greedy's first, the likeliest second."""

    before: str
    rest: str
    answers: tuple[str, str]
    logprobs: tuple[float, float]

    @property
    def scores(self) -> dict[str, tuple[int, int]]:
        greedy, likeliest = self.answers
        return {
            "exact rest of the line": (int(greedy == self.rest), int(likeliest == self.rest)),
            "the cut word is right": (
                int(_first_word(greedy) == _first_word(self.rest)),
                int(_first_word(likeliest) == _first_word(self.rest)),
            ),
            "kept characters": (
                int(LCSseq.similarity(greedy, self.rest)),
                int(LCSseq.similarity(likeliest, self.rest)),
            ),
        }


class Speller:
    """Behind one prompt, whose KV is there up to its last token."""

    def __init__(self, reader: Reader, spellings: Spellings, prompt: Sequence[int]) -> None:
        self._reader = reader
        self._spellings = spellings
        self._prompt = prompt

    def greedy(self, forced: bytes) -> Spelling:
        spelling = Spelling((), forced, 0.0)
        while spelling.left:
            spelling = self._onward(spelling, 1)[0]
        return spelling

    def likeliest(self, forced: bytes) -> Spelling:
        open_, done = [Spelling((), forced, 0.0)], []
        while open_:
            onward = [each for spelling in open_ for each in self._onward(spelling, BEAM)]
            done += [each for each in onward if not each.left]
            best = max((each.logprob for each in done), default=-np.inf)
            open_ = sorted((each for each in onward if each.left), key=lambda each: -each.logprob)[:BEAM]
            open_ = [each for each in open_ if each.logprob > best]
        return max(done, key=lambda each: each.logprob)

    def written_on(self, spelling: Spelling, ends: frozenset[int], newline: bytes) -> bytes:
        """All that is spelt and what greedy decoding says behind it, to the line's end."""
        token_ids = list(spelling.token_ids)
        text = b"".join(map(self._spellings.of, token_ids))
        for _ in range(MOST_TOKENS):
            if newline in text:
                break
            token_id = int(self._logits(token_ids).argmax())
            if token_id in ends:
                break
            token_ids.append(token_id)
            text += self._spellings.of(token_id)
        return text

    def _onward(self, spelling: Spelling, count: int) -> list[Spelling]:
        values = self._logits(spelling.token_ids).astype(np.float64)
        logprobs = values - values.max() - np.log(np.exp(values - values.max()).sum())
        ids = self._spellings.agreeing(spelling.left)
        best = ids[np.argsort(-logprobs[ids], kind="stable")[:count]]
        return [
            Spelling(
                (*spelling.token_ids, int(each)),
                spelling.left[len(self._spellings.of(int(each))) :],
                spelling.logprob + float(logprobs[each]),
            )
            for each in best
        ]

    def _logits(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """Behind the prompt and these."""
        logits = self._reader.logits([self._prompt[-1], *token_ids], len(self._prompt) - 1)
        row: NDArray[np.float32] = logits[len(token_ids)]
        return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--lines", type=int, default=60, help="per source")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no new line after so long")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rng = random.Random(4)
    sources = zip(
        trace_cursors(options.trace, options.lines, rng), library_cursors(options.lines, rng), strict=True
    )
    chosen: list[Cursor] = [each for pair in sources for each in pair]
    with closing(open_checkpoint(options.model)) as checkpoint:
        executor = NativeExecutor(checkpoint, num_blocks=blocks_for(512), num_threads=1)
        tokenizer = Tokenizer(checkpoint.vocab)
    reader, encoder, spellings = (
        Reader(executor),
        TextEncoder(tokenizer, continues=False),
        Spellings(tokenizer),
    )
    counts = {"cursors": 0, "first token spells a part": 0, "another spelling is likelier": 0}
    cases: list[Case] = []
    end = time.monotonic() + 60 * options.minutes
    for cursor in chosen:
        if time.monotonic() > end:
            break
        start = cursor.before.rfind("\n") + 1
        line = cursor.before[start:] + cursor.rest
        window = cursor.before[:start][-_WINDOW_CHARACTERS:]
        window = window[window.find("\n") + 1 :]
        for offset in sorted(rng.sample(range(1, len(line)), min(len(line) - 1, _CURSORS_PER_LINE))):
            before, rest = window + line[:offset], line[offset:].rstrip("\n")
            encoded = encoder.encode(before)
            point = healing_point(tokenizer, encoder, encoded)
            if point is None or point.num_tokens == 0:
                continue
            prompt = list(encoded.token_ids[: point.num_tokens])
            reader.logits(prompt, 0)
            speller = Speller(reader, spellings, prompt)
            forced = before[point.place :].encode()
            greedy = speller.greedy(forced)
            counts["cursors"] += 1
            if len(greedy.token_ids) == 1:
                continue
            counts["first token spells a part"] += 1
            likeliest = speller.likeliest(forced)
            if likeliest.token_ids == greedy.token_ids:
                continue
            counts["another spelling is likelier"] += 1
            greedily, likely = (
                speller.written_on(each, tokenizer.eos_ids, b"\n")[len(forced) :]
                .decode(errors="ignore")
                .partition("\n")[0]
                for each in (greedy, likeliest)
            )
            logprobs = greedy.logprob, likeliest.logprob
            cases.append(Case(line[:offset][-40:], rest, (greedily, likely), logprobs))
        print(counts, end="\r", flush=True)
    print()
    totals: dict[str, tuple[int, int]] = {}
    print(f"{'where they differ':24} greedy  likeliest")
    for name in Case("", "", ("", ""), (0.0, 0.0)).scores:
        pairs = [case.scores[name] for case in cases]
        one, other = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        totals[name] = one, other
        print(f"{name:24} {one:6}  {other:9}")
    found = {"counts": counts, "totals": totals}
    if options.write is not None:
        shown = [dataclasses.asdict(case) for case in cases]
        options.write.write_text(json.dumps({**found, "cases": shown}, indent=1) + "\n")
    print(json.dumps(found))


def _first_word(text: str) -> str:
    """Up to where the word that the cursor cuts ends."""
    length = next(
        (i for i, character in enumerate(text) if not (character.isalnum() or character == "_")), len(text)
    )
    return text[:length]


if __name__ == "__main__":
    main()
