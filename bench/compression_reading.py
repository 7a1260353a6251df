"""One cursor with its context as an arm left it: how likely the true continuation is, what is written, the time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.compression_items import Item
from halfline.bench.steps import blocks_for
from halfline.context.compression.passes import Budget, LinedPart, LineTokens, Pass, lined
from halfline.model.executor import CAUSAL, Batch
from halfline.native.executor import NativeExecutor
from halfline.quality.comparison.likeness import edit_similarity, is_same
from halfline.sampling.sampler import score
from halfline.text.tokenizer import Tokenizer

_LINE_TOKENS = 24  # of a line that it writes


@dataclass(frozen=True, slots=True)
class Read:
    """`nats` of the true continuation; the line that greedy decoding wrote; processor time of reading the prompt."""

    nats: float
    line: str
    read_ms: float


@dataclass(frozen=True, slots=True)
class Measured:
    nats: float
    num_true: int
    exact: bool
    similarity: float
    context_tokens: int
    removed: int
    shrink_ms: float
    read_ms: float


class Reader:
    def __init__(self, executor: NativeExecutor, tokenizer: Tokenizer, num_true: int) -> None:
        self._executor = executor
        self._tokenizer = tokenizer
        self._num_true = num_true
        self._file_id = tokenizer.token_id("<file_sep>")
        self._latest: dict[tuple[tuple[int, ...], tuple[int, ...]], Read] = {}

    def next_item(self) -> None:
        self._latest.clear()

    def measure(self, item: Item, passes: Pass | None, tokens: LineTokens, num_tokens: int) -> Measured:
        """`passes` None: without any context. `num_tokens` is the budget of those that have one."""
        given = [lined(part) for part in item.parts]
        num_given = tokens.count(given)
        budget = Budget(num_tokens, item.before, path=item.path, room=num_tokens)
        began = time.process_time()
        left = () if passes is None else passes.shrink(given, budget).parts
        shrink_ms = (time.process_time() - began) * 1e3
        return self.measure_left(item, left, shrink_ms, num_given, num_given - tokens.count(left))

    def measure_left(
        self, item: Item, left: Sequence[LinedPart], shrink_ms: float, num_given: int, num_removed: int
    ) -> Measured:
        """What is `left` of the item's parts."""
        rest = self._tokenizer.encode(item.rest, continues=True)[: self._num_true]
        read = self._read(tuple(self._prompt(item, left)), tuple(rest))
        true_line = item.rest.partition("\n")[0]
        return Measured(
            nats=read.nats,
            num_true=len(rest),
            exact=is_same(read.line, true_line),
            similarity=edit_similarity(read.line, true_line),
            context_tokens=num_given,
            removed=num_removed,
            shrink_ms=shrink_ms,
            read_ms=read.read_ms,
        )

    def _read(self, prompt: tuple[int, ...], rest: tuple[int, ...]) -> Read:
        """Arms often agree: once for each prompt."""
        key = prompt, rest
        if key not in self._latest:
            began = time.process_time()
            last = self._run(prompt, 0, [len(prompt) - 1])
            read_ms = (time.process_time() - began) * 1e3
            line = self._written(len(prompt), last[0])
            # What was written is written over.
            more = self._run(rest[:-1], len(prompt), range(len(rest) - 1))
            logits = np.concatenate([last, more])
            scored = [score(row, token_id, 1) for row, token_id in zip(logits, rest, strict=True)]
            nats = -sum(each.logprob or 0.0 for each in scored)
            self._latest[key] = Read(nats, line, read_ms)
        return self._latest[key]

    def _written(self, first: int, logits: np.ndarray) -> str:
        """The line, without its end."""
        token_ids: list[int] = []
        text = ""
        while True:
            token_ids.append(int(np.argmax(logits)))
            text = self._tokenizer.decode(token_ids)
            if "\n" in text or len(token_ids) == _LINE_TOKENS:
                return text.partition("\n")[0]
            logits = self._run(token_ids[-1:], first + len(token_ids) - 1, [0])[0]

    def _prompt(self, item: Item, parts: Sequence[LinedPart]) -> list[int]:
        left = [part for part in parts if part.lines]
        if not left:
            return self._tokenizer.encode(item.before)
        token_ids = self._tokenizer.encode("")
        for part in [*left, LinedPart(item.path, ())]:
            head = f"{part.path}\n" if self._file_id is not None else f"# {part.path}\n"
            token_ids += [] if self._file_id is None else [self._file_id]
            token_ids += self._tokenizer.encode(head + part.text, continues=True)
        return token_ids + self._tokenizer.encode(item.before, continues=True)

    def _run(self, token_ids: Sequence[int], first: int, rows: Sequence[int]) -> np.ndarray:
        outputs = self._executor.run(
            Batch(
                token_ids=np.array(token_ids, np.int32),
                row_starts=np.array([0, len(token_ids)], np.int32),
                first_places=np.array([first], np.int32),
                block_tables=np.arange(blocks_for(first + len(token_ids)), dtype=np.int32)[None, :],
                masks=(CAUSAL,),
                logit_rows=np.array(list(rows), np.int32),
                hidden_rows=np.array([], np.int32),
            )
        )
        assert outputs is not None, "nobody sets the stop flag of this executor"
        return outputs.logits
