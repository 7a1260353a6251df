"""One configuration of a model in this process: what it makes of a task, teacher forced and left to itself.

Each task is asked for as the first request of a new user, so that its prompt depends on nothing that was asked before:
a run that is gone on with gives the answers that it would have given at once.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from halfline.context.surroundings import Surroundings
from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.model.executor import CAUSAL, Batch, Executor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import Prompt, PromptBuilder
from halfline.pipeline.reranking import Reranking
from halfline.quality.comparison.case import Answer
from halfline.quality.infilling.suites import Task
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.infill import InfillOrder, find_infill_format
from halfline.text.tokenizer import Tokenizer

_PROMPT_ROWS = 256
_FORCED_ROWS = 8
"""Of the true text at a time: what was written by earlier steps has to be read by later ones to be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How an arm serves; `order` None: what models of its infill format are said to like. `surroundings` None: of other
    files there is what a task brings, as it brings it.
    """

    engine: EngineOptions
    pipeline: PipelineOptions
    params: SamplingParams
    order: InfillOrder | None = None
    surroundings: Surroundings | None = None
    max_tokens: int = 64


class Arm:
    """Owns the executor. First `logits` of all tasks, then `start`, `answer` and `close`: the engine needs it alone."""

    def __init__(self, executor: Executor, tokenizer: Tokenizer, way: Way) -> None:
        self._executor = executor
        self._tokenizer = tokenizer
        self._way = way
        limit = min(executor.spec.max_context, executor.kv_format.num_tokens(executor.num_blocks))
        self._prompts = PromptBuilder(
            tokenizer, way.pipeline, executor.spec.vocab_size, limit, way.order, way.surroundings
        )
        self._engine: EngineHandle | None = None
        self._serving: CompletionPipeline | Reranking | None = None

    async def true_ids(self, task: Task) -> list[int]:
        """The first tokens of the true text, with the word before it that the cursor cuts."""
        prompt = await self._prompts.build(self._request(task), keeps=False)
        token_ids = self._tokenizer.encode(prompt.forced_text + task.wanted, add_bos=False, continues=True)
        return token_ids[: self._way.max_tokens]

    async def logits(self, task: Task, true_ids: Sequence[int]) -> NDArray[np.float32]:
        """[len(true_ids), vocab]: what this arm expects at each place of the true text, behind its own prompt."""
        prompt = await self._prompts.build(self._request(task), keeps=False)
        return self._forced(prompt, true_ids)

    def start(self) -> None:
        """From here on the engine's thread has the executor."""
        self._engine = engine = EngineHandle(self._executor, self._way.engine)
        pipeline = CompletionPipeline(
            engine,
            self._tokenizer,
            self._executor.spec,
            self._way.pipeline,
            infill_order=self._way.order,
            surroundings=self._way.surroundings,
        )
        infills = find_infill_format(self._tokenizer) is not None
        self._serving = pipeline if infills else Reranking(pipeline, pipeline.judge, self._way.pipeline)
        engine.start()

    async def answer(self, task: Task) -> Answer:
        """As an editor is answered. Raises what the pipeline raises."""
        assert self._serving is not None, "`start` comes first"
        completion = await self._serving.complete(self._request(task))
        receipt = completion.receipt
        return Answer(
            text=completion.choices[0].text,
            passed=None,
            prompt_tokens=receipt.num_prompt_tokens,
            computed_tokens=receipt.num_computed_tokens,
            ms=receipt.total_ms,
        )

    def close(self) -> None:
        """Ends the engine's thread, if there is one."""
        if self._engine is not None:
            self._engine.close(0.0)

    def _request(self, task: Task) -> CompletionRequest:
        return CompletionRequest(
            id=f"cmpl-{uuid.uuid4().hex}",
            prompt=Document(task.prefix, task.suffix, task.path, task.parts),
            params=replace(self._way.params, stop=("\n",) if task.single_line else ()),
            max_tokens=self._way.max_tokens,
            user=task.id,
        )

    def _forced(self, prompt: Prompt, true_ids: Sequence[int]) -> NDArray[np.float32]:
        """The prompt in large steps, then the true text in small ones; the last true token is never run."""
        num_prompt = len(prompt.token_ids)
        token_ids = np.array([*prompt.token_ids, *true_ids[:-1]], np.int32)
        cuts = [*range(0, num_prompt - 1, _PROMPT_ROWS), num_prompt - 1]
        cuts = [*cuts, *range(num_prompt - 1 + _FORCED_ROWS, len(token_ids), _FORCED_ROWS), len(token_ids)]
        table = np.arange(self._executor.kv_format.num_blocks(len(token_ids)), dtype=np.int32)[None, :]
        found = []
        for start, stop in pairwise(cuts):
            if start == stop:
                continue
            outputs = self._executor.run(
                Batch(
                    token_ids=token_ids[start:stop],
                    row_starts=np.array([0, stop - start], np.int32),
                    first_places=np.array([start], np.int32),
                    block_tables=table,
                    masks=(CAUSAL,),
                    logit_rows=np.arange(max(0, num_prompt - 1 - start), stop - start, dtype=np.int32),
                    hidden_rows=np.array([], np.int32),
                )
            )
            assert outputs is not None, "nobody sets the stop flag of this executor"
            found.append(outputs.logits)
        return np.concatenate(found)
