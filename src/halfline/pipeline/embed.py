"""A text as one vector: the mean of its tokens' hidden states, of length 1."""

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfline.engine.handle import EngineHandle
from halfline.engine.hidden_mean import HiddenMean
from halfline.engine.sequence import Work
from halfline.errors import BadRequest, EngineFailed, PromptTooLong, UnusableLogits
from halfline.kv.namespace import namespace
from halfline.model.executor import CAUSAL
from halfline.model.spec import ModelSpec
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

# Encoding a longer text on the event loop would hold others up for longer than a decode step.
_INLINE_CHARACTERS = 1 << 14


@dataclass(frozen=True, slots=True)
class Embedding:
    """`vector` float32 [hidden size], of length 1, or 0 where all states were."""

    vector: NDArray[np.float32]
    num_tokens: int


class Embedder:
    """Embeds by the model that completes; lives on the event loop."""

    def __init__(self, engine: EngineHandle, tokenizer: Tokenizer, spec: ModelSpec) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._spec = spec

    async def embed(
        self, prompt: str | tuple[int, ...], tenant: str, user: str = "", key: str = ""
    ) -> Embedding:
        """Every token is computed, whatever is known: the states are not kept. Cancelling the caller ends the work.

        Raises BadRequest (PromptTooLong, UnencodableText, unknown or no tokens), NotNow, EngineFailed, UnusableLogits.
        """
        token_ids = await self._token_ids(prompt)
        mean = HiddenMean(len(token_ids))
        work = Work(
            prompt_ids=token_ids,
            max_new_tokens=0,
            sampler=Sampler(SamplingParams(), token_ids),
            reader=Reader(Detokenizer(self._tokenizer)),
            stop_token_ids=frozenset(),
            namespace=namespace(
                tenant=tenant,
                model=self._spec.name,
                kv_format=self._engine.kv_format.name,
                mask=CAUSAL,
                adapter=None,
            ),
            priority="batch",
            key=key,
            user=user,
            hidden_mean=mean,
        )
        generation = self._engine.submit([work])
        try:
            async for _, progress in generation:
                if progress.outcome is not None and progress.outcome.failure is not None:
                    raise UnusableLogits(progress.outcome.failure)
        finally:
            generation.cancel()
        if not mean.complete:
            raise EngineFailed(self._engine.failure or RuntimeError("it left no reason"))
        return Embedding(_unit(mean.mean), len(token_ids))

    async def _token_ids(self, prompt: str | tuple[int, ...]) -> tuple[int, ...]:
        limit = self._engine.max_sequence_tokens
        if isinstance(prompt, str):
            self._tokenizer.check_may_fit(prompt, limit, "input")
            if len(prompt) <= _INLINE_CHARACTERS:
                token_ids = tuple(self._tokenizer.encode(prompt))
            else:
                token_ids = tuple(await asyncio.to_thread(self._tokenizer.encode, prompt))
        else:
            token_ids = prompt
            if not all(0 <= token_id < self._spec.vocab_size for token_id in token_ids):
                raise BadRequest(f"`input` holds a token that is not below {self._spec.vocab_size}", "input")
        if not token_ids:
            raise BadRequest("`input` holds a text of no tokens", "input")
        if len(token_ids) > limit:
            raise PromptTooLong(len(token_ids), 0, limit, field="input")
        return token_ids


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length):
        raise UnusableLogits("its hidden states are not finite")
    return (vector / length if length > 0.0 else vector).astype(np.float32)
