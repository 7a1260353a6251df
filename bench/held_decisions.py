"""Tokens of other files that a keystroke has to read again, with decisions held while one types and without.

    python -m bench.held_decisions MODEL.gguf TRACE.json.gz [--keystrokes N] [--write FILE.json]

Keystrokes of the recorded document, every third from transaction 12,000 on; beside it two pieces of 6,000 characters
from a later state of it, as if they were other files, shortened to 69 % where a pass can choose, as `wanted` does.
Counted is what stands behind the first token that differs from the keystroke before: all of that has to be computed
again. The last line is JSON.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from halfline.bench.replay.trace import load
from halfline.context.compression.choice import build_chain
from halfline.context.compression.held import HeldDecisions
from halfline.context.compression.names import PASS_NAMES
from halfline.context.compression.passes import Budget, LineTokens, Pass, Shrunk, lined
from halfline.context.compression.wanted import Wanted
from halfline.model.load import open_checkpoint
from halfline.request import Part
from halfline.text.tokenizer import Tokenizer

_FIRST, _LATER = 12_000, 30_000  # transactions
_STARTS, _CHARACTERS = (0, 20_000), 6_000
_EVERY = 3


def read_again(shrink: Callable[[Budget], Shrunk], budgets: Sequence[Budget], tokens: LineTokens) -> float:
    """Tokens per keystroke, the first left out."""
    before: list[int] | None = None
    again = 0
    for budget in budgets:
        now = [
            token for part in shrink(budget).parts for line in part.lines for token in tokens.ids(line.text)
        ]
        if before is not None:
            most = min(len(before), len(now))
            alike = next((place for place in range(most) if before[place] != now[place]), most)
            again += len(now) - alike
        before = now
    return again / (len(budgets) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--keystrokes", type=int, default=150)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, vocab_size = Tokenizer(checkpoint.vocab), checkpoint.spec.vocab_size
    tokens = LineTokens(lambda text: tokenizer.encode(text, continues=True))
    trace = load(options.trace, "main.rs")
    later = trace.stretch(_LATER, 1).text
    parts = [lined(Part(later[start:][:_CHARACTERS], f"other{start}.rs")) for start in _STARTS]
    room = int(0.69 * tokens.count(parts))
    typed = list(trace.stretch(_FIRST, options.keystrokes).keystrokes())[::_EVERY]
    budgets = [Budget(room, each.prefix, each.suffix, room=room) for each in typed]
    chains: dict[str, Pass] = {name: build_chain((name,), tokens, vocab_size) for name in PASS_NAMES}
    rows = {}
    for name, chain in (chains | {"wanted": Wanted(tokens)}).items():
        held = HeldDecisions()
        rows[name] = {
            "held": read_again(partial(held.shrink, chain, parts), budgets, tokens),
            "anew": read_again(partial(chain.shrink, parts), budgets, tokens),
        }
        print(f"{name:20} held {rows[name]['held']:7.1f}  anew {rows[name]['anew']:7.1f}", flush=True)
    result = {"keystrokes": len(budgets), "tokens": tokens.count(parts), "read_again": rows}
    if options.write is not None:
        options.write.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
