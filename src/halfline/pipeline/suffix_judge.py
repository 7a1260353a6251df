"""How well answers fit what stands behind the cursor, by the model's own account (C12):

    log p(answer, head of what is behind | before)

is the log-probability of both, read in one pass over `answer + head` behind the KV of what is before. All answers are
one batch, and what is before is read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.engine.handle import EngineHandle
from halfline.pipeline.prompt import PromptBuilder
from halfline.pipeline.works import Works
from halfline.request import CompletionRequest, Document
from halfline.text.tokenizer import Tokenizer

HEAD_CHARACTERS = 100  # some 30 tokens: more of them change hardly any choice


@dataclass(frozen=True, slots=True)
class Verdict:
    """The log-probability in nats of each answer with the head behind it, and how many tokens that took."""

    logprobs: tuple[float, ...]
    num_computed: int


class SuffixJudge:
    """Asks the model itself."""

    def __init__(
        self, engine: EngineHandle, prompts: PromptBuilder, tokenizer: Tokenizer, works: Works
    ) -> None:
        self._engine = engine
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._works = works

    async def verdict(self, request: CompletionRequest, document: Document, texts: Sequence[str]) -> Verdict:
        """Raises NotNow, EngineFailed."""
        prompt = await self._prompts.build(request, keeps=False)
        head = document.suffix[:HEAD_CHARACTERS]
        works = [
            self._works.scored(request, prompt.token_ids, self._encode(prompt.forced_text + text + head))
            for text in texts
        ]
        generation = self._engine.submit(works)
        sums = [0.0] * len(works)
        try:
            async for position, progress in generation:
                sums[position] += sum(each.logprob or 0.0 for each in progress.prompt_scores)
        finally:
            generation.cancel()
        num_computed = sum(outcome.stats.num_computed for outcome in generation.outcomes.values())
        return Verdict(tuple(sums), num_computed)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_bos=False, continues=True)
