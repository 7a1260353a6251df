"""Is a cursor better healed? The true rest of a line behind cursors at every place in it, with and without.

    python -m bench.healing_quality MODEL.gguf TRACE.json.gz [--lines N] [--write FILE.json]

Lines are drawn from the trace's final document and from this Python's standard library; cursors stand at four random
places of each. Unhealed, the prompt ends at the cursor; healed, at the start of the last word before it, whose text is
then forced (sampling/healing.py). Teacher forced through the usual tokens of the rest of the line: bits per character
(healed: of what is left to choose), and whether greedy decoding would have written it exactly. By what the cursor
stands behind; intervals are a bootstrap over lines. The last line is JSON.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.window_quality import Cursor, library_cursors, trace_cursors
from halfline.bench.steps import blocks_for
from halfline.document.encoded_text import TextEncoder
from halfline.document.healing_point import healing_point
from halfline.model.executor import CAUSAL, Batch
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.text.spellings import Spellings
from halfline.text.tokenizer import Tokenizer

_WINDOW_CHARACTERS = 1000
_CURSORS_PER_LINE = 4
_MAX_TOKENS = 512


class Reader:
    """Reads tokens behind others whose KV is there already."""

    def __init__(self, executor: NativeExecutor) -> None:
        self._executor = executor

    def logits(self, token_ids: Sequence[int], first_place: int) -> NDArray[np.float32]:
        outputs = self._executor.run(
            Batch(
                token_ids=np.array(token_ids, np.int32),
                row_starts=np.array([0, len(token_ids)], np.int32),
                first_places=np.array([first_place], np.int32),
                block_tables=np.arange(blocks_for(_MAX_TOKENS), dtype=np.int32)[None, :],
                masks=(CAUSAL,),
                logit_rows=np.arange(len(token_ids), dtype=np.int32),
                hidden_rows=np.array([], np.int32),
            )
        )
        assert outputs is not None, "nobody sets the stop flag of this executor"
        return outputs.logits


def rate(
    logits: NDArray[np.float32], token_ids: Sequence[int], forced: bytes, spellings: Spellings
) -> tuple[float, bool]:
    """Bits of the tokens that come under the forced text, and whether each is the likeliest that may come."""
    bits, exact = 0.0, True
    for row, token_id in zip(logits, token_ids, strict=True):
        values = row.astype(np.float64)
        if forced:
            allowed = spellings.agreeing(forced)
            values = np.where(np.isin(np.arange(len(values)), allowed), values, -np.inf)
            forced = forced[len(spellings.of(token_id)) :]
        peak = values.max()
        bits -= (values[token_id] - peak - np.log(np.exp(values - peak).sum())) / np.log(2)
        exact = exact and int(values.argmax()) == token_id
    return float(bits), exact


def kind_of(before: str, rest: str) -> str:
    last, following = before[-1], rest[0]
    if last.isspace():
        return "blank" if last != "\n" else "line end"
    if last.isalnum() or last == "_":
        return "within a word" if following.isalnum() or following == "_" else "behind a word"
    return "within symbols" if not following.isspace() and not following.isalnum() else "behind a symbol"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--lines", type=int, default=80, help="per source")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rng = random.Random(2)
    chosen: list[Cursor] = [
        *trace_cursors(options.trace, options.lines, rng),
        *library_cursors(options.lines, rng),
    ]
    with closing(open_checkpoint(options.model)) as checkpoint:
        executor = NativeExecutor(checkpoint, num_blocks=blocks_for(_MAX_TOKENS), num_threads=1)
        tokenizer = Tokenizer(checkpoint.vocab)
    reader, encoder, spellings = (
        Reader(executor),
        TextEncoder(tokenizer, continues=False),
        Spellings(tokenizer),
    )
    rows: dict[str, list[tuple[int, float, float, bool, bool, int]]] = defaultdict(list)
    for number, cursor in enumerate(chosen):
        start = cursor.before.rfind("\n") + 1
        line = cursor.before[start:] + cursor.rest
        window = cursor.before[:start][-_WINDOW_CHARACTERS:]
        window = window[window.find("\n") + 1 :]
        known: list[int] = []
        for offset in sorted(rng.sample(range(len(line)), min(len(line), _CURSORS_PER_LINE))):
            before, rest = window + line[:offset], line[offset:]
            encoded = encoder.encode(before)
            point = healing_point(tokenizer, encoder, encoded)
            if point is None:
                continue
            prompt = list(encoded.token_ids[: point.num_tokens])
            alike = 0
            while alike < min(len(prompt) - 1, len(known)) and known[alike] == prompt[alike]:
                alike += 1
            forced = before[point.place :]
            plain = tokenizer.encode(rest, continues=True)
            healed = tokenizer.encode(forced + rest, continues=True)
            first = [*prompt[alike:], *healed[:-1]]
            healed_logits = reader.logits(first, alike)[-len(healed) :]
            forced_ids = list(encoded.token_ids[point.num_tokens :])
            plain_logits = reader.logits([*forced_ids, *plain[:-1]], point.num_tokens)[-len(plain) :]
            known = prompt
            plain_bits, plain_exact = rate(plain_logits, plain, b"", spellings)
            healed_bits, healed_exact = rate(healed_logits, healed, forced.encode(), spellings)
            kind = kind_of(before, rest)
            for name in (kind, "all"):
                rows[name].append((number, plain_bits, healed_bits, plain_exact, healed_exact, len(rest)))
        print(f"{number + 1} of {len(chosen)} lines", end="\r", flush=True)
    table = {}
    print(
        "\ncursor stands     cursors  bits/char plain  healed  difference (95 %)          exact plain  healed"
    )
    for kind, each in sorted(rows.items(), key=lambda item: -len(item[1])):
        values = np.array(each, np.float64)
        generator = np.random.default_rng(0)
        lines = np.unique(values[:, 0])
        by_line = {line: values[values[:, 0] == line] for line in lines}
        differences = []
        for _ in range(1000):
            sample = np.concatenate([by_line[line] for line in generator.choice(lines, len(lines))])
            differences.append((sample[:, 2] - sample[:, 1]).sum() / sample[:, 5].sum())
        low, high = np.quantile(differences, (0.025, 0.975))
        characters = values[:, 5].sum()
        table[kind] = {
            "cursors": len(each),
            "plain_bits": values[:, 1].sum() / characters,
            "healed_bits": values[:, 2].sum() / characters,
            "low": float(low),
            "high": float(high),
            "plain_exact": values[:, 3].mean(),
            "healed_exact": values[:, 4].mean(),
        }
        row = table[kind]
        print(
            f"{kind:17} {len(each):7}  {row['plain_bits']:15.3f}  {row['healed_bits']:6.3f}"
            f"  {row['healed_bits'] - row['plain_bits']:+.3f} ({low:+.3f} to {high:+.3f})"
            f"  {row['plain_exact']:10.1%}  {row['healed_exact']:6.1%}"
        )
    if options.write is not None:
        options.write.write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
