"""What templates and the chunk registry save, in the CPU time of one thread and in tokens.

    python -m bench.task_prompts MODEL.gguf [FILE.py ...] [--rounds N]

For each built-in task, in turns within every round and medians over the rounds:

    new       its file is read, checked and compiled, the frame made, and the prompt from both
    whole     the template is compiled; its text and the whole conversation are rendered and tokenised
    kept      the frame is there too: only the input is tokenised (what a server does from the second request on)

All three give the same tokens, which is checked. `head` are the tokens that a second request does not compute, `own`
those that it does. For each FILE: its chunks, and cutting and tokenising them anew, beside asking the registry in
memory, and in the file of another process, for the same tokens. `parted` are names per cut that are
on both sides of it, in the chunks next to it; `depth` is how deep within others the statements begin that cuts are
before, and `midst` how many cuts are before none. `lines_…` are the same of the control: lines one after the other, as
many as fit.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import accumulate, pairwise
from pathlib import Path

from halfline.api.chat_frame import ChatFrame, instructed
from halfline.api.chat_template import CHATML, ChatTemplate
from halfline.context.chunks.chunk_file import ChunkFile
from halfline.context.chunks.chunk_tokens import IN_MEMORY_BYTES, ChunkTokens, tokens_in_memory
from halfline.context.chunks.chunking import MAX_TOKENS
from halfline.context.chunks.names import names_in
from halfline.context.chunks.registry import ChunkRegistry
from halfline.context.chunks.statements import statement_starts
from halfline.context.templates.library import BUILT_IN, TaskLibrary
from halfline.context.templates.task_template import TaskTemplate, read_template
from halfline.model.load import open_checkpoint
from halfline.text.tokenizer import Tokenizer

_LINE = "        total += price * amount\n"
_MUCH = 1 << 20


def _values(template: TaskTemplate) -> dict[str, object]:
    """Forty lines for each placeholder that has to be given."""
    return dict.fromkeys(template.placeholders.schema.get("required", ()), _LINE * 40)


def _frame_of(chat: ChatTemplate, template: TaskTemplate) -> ChatFrame:
    return instructed(chat, template.instructions, [(each.input, each.output) for each in template.examples])


def _task(name: str, chat: ChatTemplate, num_rounds: int) -> dict[str, object]:
    data = (BUILT_IN / name / "1.toml").read_bytes()
    template = read_template(name, "1", data, {})
    values = _values(template)
    frame = _frame_of(chat, template)

    def new() -> Sequence[int]:
        made = read_template(name, "1", data, {})
        return _frame_of(chat, made).token_ids(made.text(values, _MUCH))

    def whole() -> Sequence[int]:
        return chat.token_ids(frame.messages(template.text(values, _MUCH)))

    def kept() -> Sequence[int]:
        return frame.token_ids(template.text(values, _MUCH))

    if not new() == whole() == kept():
        raise AssertionError(f"{name}: parts made apart are not what the whole is")
    times = _medians_us((new, whole, kept), num_rounds)
    num_head = len(frame.head_ids)
    numbers = {"new_us": times[0], "whole_us": times[1], "kept_us": times[2]}
    return {"task": name, **numbers, "head": num_head, "own": len(kept()) - num_head}


def _file(path: Path, tokenizer: Tokenizer, num_rounds: int) -> dict[str, object]:
    text = path.read_text(encoding="utf-8")
    chunks = tokens_in_memory(tokenizer).chunks(text, path.name)
    memory = tokens_in_memory(tokenizer)
    with tempfile.TemporaryDirectory() as directory:
        disk = Path(directory) / "chunks.sqlite"

        def opened() -> ChunkTokens:
            return ChunkTokens(ChunkRegistry(IN_MEMORY_BYTES, ChunkFile(disk, _MUCH * 64)), tokenizer, "v")

        def all_of(tokens: ChunkTokens) -> list[Sequence[int]]:
            return [tokens.of(chunk, "file") for chunk in chunks]

        first = opened()
        expected = all_of(first)
        first.registry.close()
        all_of(memory)

        def restarted() -> list[Sequence[int]]:
            again = opened()
            found = all_of(again)
            if again.registry.num_tokenised:
                raise AssertionError("a chunk was tokenised again")
            again.registry.close()
            return found

        if not expected == all_of(memory) == restarted():
            raise AssertionError("the registry's tokens are not the tokenizer's")
        times = _medians_us(
            (
                lambda: tokens_in_memory(tokenizer).chunks(text, path.name),
                lambda: [tokenizer.encode(chunk, add_bos=False, continues=True) for chunk in chunks],
                lambda: all_of(memory),
                restarted,
            ),
            num_rounds,
        )
    control = _lines(text, tokenizer)
    return {
        "file": path.name,
        "chunks": len(chunks),
        "lines_chunks": len(control),
        **_cuts(chunks, path, ""),
        **_cuts(control, path, "lines_"),
        "tokens": sum(map(len, expected)),
        "largest": max(map(len, expected)),
        **dict(zip(("cut_us", "tokenised_us", "memory_us", "file_us"), times, strict=True)),
    }


def _lines(text: str, tokenizer: Tokenizer) -> list[str]:
    chunks = [""]
    for line in text.splitlines(keepends=True):
        if len(tokenizer.encode(chunks[-1] + line, add_bos=False, continues=True)) > MAX_TOKENS:
            chunks.append("")
        chunks[-1] += line
    return chunks


def _cuts(chunks: Sequence[str], path: Path, prefix: str) -> dict[str, object]:
    depths = {start.place: start.depth for start in statement_starts("".join(chunks), path.name)}
    places = list(accumulate(map(len, chunks)))[:-1]
    known = [depths[place] for place in places if place in depths]
    parted = [len(names_in(left) & names_in(right)) for left, right in pairwise(chunks)]
    return {
        f"{prefix}parted": round(statistics.mean(parted), 1),
        f"{prefix}depth": round(statistics.mean(known), 2),
        f"{prefix}midst": len(places) - len(known),
    }


def _medians_us(works: Sequence[Callable[[], object]], num_rounds: int) -> list[float]:
    times: list[list[float]] = [[] for _ in works]
    for _ in range(num_rounds):
        for each, work in zip(times, works, strict=True):
            started = time.thread_time()
            work()
            each.append((time.thread_time() - started) * 1e6)
    return [round(statistics.median(each), 1) for each in times]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    with closing(open_checkpoint(arguments.model)) as checkpoint:
        tokenizer = Tokenizer(checkpoint.vocab)
        chat = ChatTemplate(tokenizer, checkpoint.vocab.chat_template or CHATML)
    tasks = [_task(name, chat, arguments.rounds) for name in TaskLibrary().tasks()]
    files = [_file(path, tokenizer, arguments.rounds) for path in arguments.files]
    for rows in (tasks, files):
        if rows:
            print("  ".join(f"{key:>14}" for key in rows[0]))
        for row in rows:
            print("  ".join(f"{value!s:>14}" for value in row.values()))
    print(json.dumps({"tasks": tasks, "files": files}))


if __name__ == "__main__":
    main()
