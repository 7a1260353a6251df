"""What the benchmark of drafts generates: replayed editor answers, infilling, copy-heavy edits, and a guard.

replay     after sampled keystrokes of a recorded session; the last 256 lines, greedy, one line of 24 tokens at most
infill     HumanEval's single lines, from what stands before them, likewise
copy       a function that stands above is begun again under another name, greedy, 48 tokens
guard      infill's prompts, 16 tokens drawn at temperature 1, where hardly a guess can come true
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from halfline.bench.keystrokes import replay
from halfline.bench.speculation import Item
from halfline.request import SamplingParams

_LINE = SamplingParams(stop=("\n",))
_WINDOW_LINES = 256
_COPY_LINES, _COPY_EVERY = 60, 2
_FIRST_TRANSACTION, _LAST_TRANSACTION = 3000, 36_800


def workloads(data: Path, num_stretches: int, stretch: int) -> Mapping[str, list[Item]]:
    """By name. Raises OSError or ValueError when `data` lacks its files."""
    infill = data / "humaneval_single_line.jsonl.gz"
    return {
        "replay": list(_replayed(data / "rustcode.json.gz", num_stretches, stretch)),
        "infill": list(_infilled(infill, _LINE, 24)),
        "copy": list(_copied(data / "rustcode.json.gz"))[::_COPY_EVERY],
        "guard": list(_infilled(infill, SamplingParams(temperature=1.0, seed=0), 16)),
    }


def _replayed(trace: Path, num_stretches: int, stretch: int) -> Iterator[Item]:
    apart = (_LAST_TRANSACTION - _FIRST_TRANSACTION) // num_stretches
    for keystroke in replay(trace, range(_FIRST_TRANSACTION, _LAST_TRANSACTION, apart), stretch):
        prompt, before = keystroke.window(_WINDOW_LINES)
        if prompt:
            yield Item(
                name=f"transaction {keystroke.transaction}",
                prompt=prompt,
                max_new_tokens=24,
                others=(keystroke.suffix, before),
                params=_LINE,
            )


def _infilled(file: Path, params: SamplingParams, max_new_tokens: int) -> Iterator[Item]:
    for line in gzip.decompress(file.read_bytes()).decode().splitlines():
        task = json.loads(line)
        yield Item(
            name=task["task_id"],
            prompt=task["prompt"],
            max_new_tokens=max_new_tokens,
            others=(task["suffix"],),
            params=params,
        )


def _copied(trace: Path) -> Iterator[Item]:
    """Functions of the session's final document; each is begun again, renamed, with its first lines."""
    for end in replay(trace, range(_LAST_TRANSACTION, _LAST_TRANSACTION + 1), 1):
        text = end.prefix + end.suffix
        for number, found in enumerate(re.finditer(r"\n( *)(?:pub )?fn (\w+).*?\n\1\}\n", text, re.DOTALL)):
            lines = found[0].splitlines(keepends=True)
            if 8 <= len(lines) <= 40:
                again = "".join(lines[:3]).replace(f"fn {found[2]}", f"fn {found[2]}_again")
                yield Item(
                    name=f"function {number}",
                    prompt="".join(text[: found.end()].splitlines(keepends=True)[-_COPY_LINES:]) + again,
                    max_new_tokens=48,
                    params=SamplingParams(),
                )
