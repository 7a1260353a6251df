"""CPU time of building a keystroke's prompt in a large file, and in a small one as a control.

    python -m bench.prompt_cost MODEL.gguf [--megabytes N] [--keystrokes N] [--write FILE.json]

Types into the middle and at the end of a file made of this Python's standard library, with jumps back and forth between
the two. Counted is the process's CPU time from the request to the finished prompt, its tokens, its healing point and
the ledger; nothing is generated. What it must cost: comparing and cutting strings of the window's length, and encoding
what was typed. The last line is JSON.
"""

import argparse
import asyncio
import json
import sysconfig
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from halfline.model.load import open_checkpoint
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import PromptBuilder
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.tokenizer import Tokenizer

_TYPED = "    result = some_function(argument, other=1)\n    return result\n\n\n"
_STRETCH = 50  # keystrokes between two jumps


def library(num_characters: int) -> str:
    root = Path(sysconfig.get_path("stdlib"))
    text = ""
    for path in sorted(root.rglob("*.py")):
        if len(text) >= num_characters:
            break
        text += path.read_text("utf-8", errors="replace")
    return text[:num_characters]


async def measure(builder: PromptBuilder, document: str, num_keystrokes: int) -> list[float]:
    """Milliseconds of CPU time of each keystroke."""
    cursors = [len(document) // 2, len(document)]
    spent = []
    for number in range(num_keystrokes):
        which = number // _STRETCH % 2
        cursor = cursors[which]
        typed = _TYPED[number % len(_TYPED)]
        document = document[:cursor] + typed + document[cursor:]
        cursors = [place + len(typed) * (place >= cursor) for place in cursors]
        prefix, suffix = document[: cursors[which]], document[cursors[which] :]
        request = CompletionRequest(
            id="r", prompt=Document(prefix, suffix, "large.py"), params=SamplingParams(), max_tokens=24
        )
        began = time.process_time()
        await builder.build(request)
        spent.append((time.process_time() - began) * 1e3)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--megabytes", type=float, default=2.0)
    parser.add_argument("--keystrokes", type=int, default=1000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, spec = Tokenizer(checkpoint.vocab), checkpoint.spec
    table = {}
    for megabytes in (0.02, options.megabytes):
        builder = PromptBuilder(tokenizer, PipelineOptions(), spec.vocab_size, spec.max_context)
        spent = asyncio.run(measure(builder, library(int(megabytes * 1e6)), options.keystrokes))
        row = {f"p{at}": float(np.percentile(spent[1:], at)) for at in (50, 95, 99)}
        row |= {"mean": float(np.mean(spent[1:])), "cold": spent[0]}
        table[f"{megabytes} MB"] = row
        print(f"{megabytes:5} MB", "  ".join(f"{key} {value:.3f} ms" for key, value in row.items()))
    if options.write is not None:
        options.write.write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
