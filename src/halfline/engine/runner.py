"""Runs a plan: arrays for the executor, logits for the samplers."""

from collections.abc import Sequence as Series
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from halfline.engine.plan import Chunk, ChunkResult, Plan
from halfline.model.executor import CAUSAL, Batch, Executor, GreedyDecoder, GreedyRun, Outputs
from halfline.sampling.sampler import Sampler, Scored, num_top_scored, score
from halfline.sampling.top_row import TopRow, top_row


class Runner:
    """Knows neither blocks' owners nor who waits; changes samplers, nothing else of a sequence."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._chooses = isinstance(executor, GreedyDecoder)

    def run(self, plan: Plan) -> list[ChunkResult] | None:
        """One result per chunk; None when the executor was told to stop, and nothing was sampled."""
        if copies := plan.copies:
            self._executor.copy_blocks([each.source for each in copies], [each.target for each in copies])
        if plan.goes_on and (sampled := self._go_on(plan.chunks[0])):
            return [ChunkResult(sampled)]
        # A run without a token was stopped, or its first row overflowed: a step of its own tells.
        chosen = [self._chooses and _takes_the_largest(chunk) for chunk in plan.chunks]
        outputs = self._executor.run(build_batch(plan.chunks, chosen, self._executor.spec.vocab_size))
        if outputs is None:
            return None
        _gather_hidden(plan.chunks, outputs)
        logit_rows = iter(range(len(outputs.logits)))
        choices = iter(() if outputs.choices is None else outputs.choices.tolist())
        results = []
        for chunk, executor_chose in zip(plan.chunks, chosen, strict=True):
            num_sampling = _num_sampling_rows(chunk)
            num_rows = len(chunk.scored_rows) + (0 if executor_chose else num_sampling)
            taken = list(islice(choices, num_sampling)) if executor_chose else None
            results.append(_result(chunk, outputs, list(islice(logit_rows, num_rows)), taken))
        return results

    def _go_on(self, chunk: Chunk) -> tuple[Scored, ...]:
        """The tokens of a greedy run, as the sampler would have chosen them."""
        sequence = chunk.sequence
        assert isinstance(self._executor, GreedyDecoder)  # or no chunk would go on
        token_ids = self._executor.decode(
            GreedyRun(
                token_id=sequence.token_ids[chunk.start],
                place=chunk.start,
                block_table=_int32(sequence.table.block_ids),
                max_tokens=chunk.run_tokens,
                end_ids=tuple(sequence.work.stop_token_ids),
            )
        )
        for token_id in (chosen := token_ids.tolist()):
            sequence.work.sampler.follow(token_id)
        return tuple(map(Scored, chosen))


def build_batch(chunks: Series[Chunk], chosen: Series[bool], vocab_size: int) -> Batch:
    """Rows in the chunks' order; of each chunk first the logits that score its prompt, then those to sample. `chosen`:
    the executor is to choose the chunk's tokens."""
    token_ids: list[int] = []
    row_starts = [0]
    logit_rows: list[int] = []
    choice_rows: list[int] = []
    hidden_rows: list[int] = []
    tables = np.zeros((len(chunks), max(len(c.sequence.table.block_ids) for c in chunks)), np.int32)
    for index, (chunk, executor_chooses) in enumerate(zip(chunks, chosen, strict=True)):
        logit_rows += [row_starts[-1] + place - chunk.start for place in chunk.scored_rows]
        hidden_rows += [row_starts[-1] + place - chunk.start for place in _hidden_places(chunk)]
        token_ids += chunk.sequence.token_ids[chunk.start : chunk.stop]
        token_ids += chunk.draft_ids
        row_starts.append(len(token_ids))
        sampling_rows = range(row_starts[-1] - _num_sampling_rows(chunk), row_starts[-1])
        (choice_rows if executor_chooses else logit_rows).extend(sampling_rows)
        block_ids = chunk.sequence.table.block_ids
        tables[index, : len(block_ids)] = block_ids
    return Batch(
        token_ids=_int32(token_ids),
        row_starts=_int32(row_starts),
        first_places=_int32([chunk.start for chunk in chunks]),
        block_tables=tables,
        masks=[CAUSAL] * len(chunks),
        logit_rows=_int32(logit_rows),
        hidden_rows=_int32(hidden_rows),
        top_k=min(max(map(_num_top, chunks, chosen)), vocab_size),
        choice_rows=_int32(choice_rows),
    )


def _hidden_places(chunk: Chunk) -> range:
    """Of the sequence, whose hidden states are wanted."""
    mean = chunk.sequence.work.hidden_mean
    return range(0) if mean is None else mean.missing(chunk.start, chunk.stop)


def _gather_hidden(chunks: Series[Chunk], outputs: Outputs) -> None:
    first_row = 0
    for chunk in chunks:
        num_rows = len(_hidden_places(chunk))
        mean = chunk.sequence.work.hidden_mean
        if mean is not None:
            mean.add(outputs.hidden[first_row : first_row + num_rows])
        first_row += num_rows


def _num_sampling_rows(chunk: Chunk) -> int:
    """The row of the last known token, and those of the draft behind it."""
    return chunk.samples + len(chunk.draft_ids)


def _takes_the_largest(chunk: Chunk) -> bool:
    """Whether it wants tokens, and no more of each than that its logit is the largest."""
    return _num_sampling_rows(chunk) > 0 and chunk.sequence.work.sampler.takes_the_largest


def _num_top(chunk: Chunk, executor_chooses: bool) -> int:
    """How many of its rows' largest logits are of use."""
    work = chunk.sequence.work
    sampled = work.sampler.num_top if chunk.samples and not executor_chooses else 0
    return max(sampled, num_top_scored(work.prompt_logprobs) if chunk.scored_rows else 0)


def _result(chunk: Chunk, outputs: Outputs, rows: Series[int], choices: Series[int] | None) -> ChunkResult:
    """`rows` of the outputs' logits: those that score the prompt, then, without choices, those to sample."""
    sequence = chunk.sequence
    num_scored = len(chunk.scored_rows)
    scores: list[Scored] = []
    sampled: list[Scored] = []
    try:
        for place, row in zip(chunk.scored_rows, rows[:num_scored], strict=True):
            num_top = sequence.work.prompt_logprobs or 0
            scores.append(
                score(outputs.logits[row], sequence.token_ids[place + 1], num_top, _top(outputs, row))
            )
        for position in range(_num_sampling_rows(chunk)):
            if choices is None:
                row = rows[num_scored + position]
                sampled.append(sequence.work.sampler.sample(outputs.logits[row], _top(outputs, row)))
            else:
                sampled.append(_follow(sequence.work.sampler, choices[position]))
            # Sampled as if there were no draft: its next row is worth something if it guessed just this token.
            if chunk.draft_ids[position : position + 1] != (sampled[-1].token_id,):
                break
    except FloatingPointError as error:  # the model overflowed on this sequence; its batch mates are fine
        return ChunkResult(tuple(sampled), tuple(scores), str(error))
    return ChunkResult(tuple(sampled), tuple(scores))


def _follow(sampler: Sampler, token_id: int) -> Scored:
    """The executor's choice; raises FloatingPointError when there was none."""
    if token_id < 0:
        raise FloatingPointError("the largest logit is not finite")
    sampler.follow(token_id)
    return Scored(token_id)


def _top(outputs: Outputs, row: int) -> TopRow | None:
    return None if outputs.top is None else top_row(outputs.top, row, outputs.logits.shape[1])


def _int32(values: Series[int]) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)
