"""How many tokens a keystroke computes, by layout, counted: a trace, a tokenizer, no model and no clock.

    python -m bench.layout_replay MODEL.gguf TRACE.json.gz [--from N ...] [--count N] [--fresh N] [--least N] [--max N]
        [--grown N] [--held N] [--write FILE.json]

Replays the trace's documents before the cursor, keystroke by keystroke, through the layout. Beside each keystroke's
prompt stands what of it no earlier prompt begins with (`computed`, at least one token: the last is always run; the
engine holds the latest `--held` tokens), and the oracle's share: the tokens of everything before the cursor behind
the first place that differs from every earlier keystroke's. `ahead` is what is read at the keystroke's end for a window
to come: in the pause, or, where there is none, beside the next keystroke. Each `--from` begins with nothing remembered;
its first keystroke is the cold start, reported apart.
"""

import argparse
import json
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from halfline.bench.keystrokes import replay
from halfline.context.layout import Layout, LayoutSizes
from halfline.document.encoded_text import TextEncoder, common_length
from halfline.model.load import open_checkpoint
from halfline.text.tokenizer import Tokenizer

_GROUP = 8  # prompts that do not share so many tokens are not compared


class Held:
    """The prompts an engine still has, up to so many tokens; one that goes on from another takes its place."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._prompts: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._num_tokens = 0

    def run(self, token_ids: Sequence[int]) -> int:
        """Tokens to compute for this prompt, which is held from now on."""
        prompt, head = tuple(token_ids), tuple(token_ids[:_GROUP])
        most, nearest = 0, None
        for other in self._prompts:
            if other[: len(head)] == head:
                alike = _alike(prompt, other)
                if alike > most:
                    most, nearest = alike, other
        self._num_tokens += len(prompt) - most
        if nearest is not None:
            if most == len(prompt):
                self._prompts.move_to_end(nearest)
                return 1
            if most == len(nearest):
                del self._prompts[nearest]
        self._prompts[prompt] = None
        while self._num_tokens > self._max_tokens and len(self._prompts) > 1:
            oldest, _ = self._prompts.popitem(last=False)
            self._num_tokens -= len(oldest) - max(
                (_alike(oldest, other) for other in self._prompts), default=0
            )
        return max(1, len(prompt) - most)


def _alike(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Oracle:
    """Where a text first differs from every earlier one: a tree of lines."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int, str], int] = {}
        self._below: dict[int, set[str]] = {}

    def num_common(self, text: str) -> int:
        """Characters that some earlier text begins with too."""
        node, num_common, known = 0, 0, True
        lines = text.splitlines(keepends=True)
        for line in lines:
            child = self._ids.get((node, line))
            if known and child is not None:
                num_common += len(line)
            elif known:
                known = False
                num_common += max(
                    (common_length(line, other) for other in self._below.get(node, ())), default=0
                )
            if child is None:
                child = self._ids[node, line] = len(self._ids) + 1
                self._below.setdefault(node, set()).add(line)
            node = child
        return num_common


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument(
        "--from", dest="starts", type=int, nargs="+", default=[1, 3000, 12_000, 20_000, 30_000]
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--fresh", type=int, default=128)
    parser.add_argument("--least", type=int, default=64)
    parser.add_argument("--grown", type=int, default=1024)
    parser.add_argument("--max", type=int, default=1536)
    parser.add_argument("--held", type=int, default=20_000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer = Tokenizer(checkpoint.vocab)
    encoder = TextEncoder(tokenizer, continues=False)
    sizes = LayoutSizes(options.fresh, options.least, options.grown, options.max)
    computed, excess, ahead, lengths = [], [], [], []
    reasons: Counter[str] = Counter()
    for start in options.starts:
        layout, held, oracle = Layout(encoder, sizes), Held(options.held), Oracle()
        for number, keystroke in enumerate(replay(options.trace, range(start, start + 1), options.count)):
            placement = layout.place(keystroke.prefix)
            num_computed = held.run(placement.encoded.token_ids)
            planned = () if placement.planned is None else placement.planned.token_ids[: placement.num_due]
            num_ahead = held.run(planned) if planned else 0
            num_common = oracle.num_common(keystroke.prefix)
            # Tokens of the rest, from its line's start on: nothing reaches across.
            line = keystroke.prefix.rfind("\n", 0, num_common) + 1
            rest = encoder.encode(keystroke.prefix[line:])
            num_bytes = len(keystroke.prefix[line:num_common].encode())
            num_oracle = max(1, sum(end > num_bytes for end in rest.ends))
            if number == 0:
                print(f"from {start}: cold start computes {num_computed}, oracle {num_oracle}")
                continue
            computed.append(num_computed)
            excess.append(num_computed - num_oracle)
            ahead.append(num_ahead)
            lengths.append(len(placement.encoded))
            reasons[placement.reason] += 1
    table = {
        name: {
            **{f"p{at}": float(np.percentile(values, at)) for at in (50, 90, 95, 98, 99, 99.5)},
            "max": float(max(values)),
            "mean": float(np.mean(values)),
        }
        for name, values in (
            ("computed", computed),
            ("excess", excess),
            ("ahead", ahead),
            ("length", lengths),
        )
    }
    for name, row in table.items():
        print(f"{name:9}", "  ".join(f"{key} {value:.0f}" for key, value in row.items()))
    print(dict(reasons), f"of {len(computed)} keystrokes")
    result = {
        "fresh": options.fresh,
        "least": options.least,
        "grown": options.grown,
        "max": options.max,
        "keystrokes": len(computed),
        **table,
        "reasons": reasons,
    }
    if options.write is not None:
        options.write.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
