"""From a prompt to the sequence that the engine is asked for."""

from collections.abc import Sequence
from dataclasses import replace

from halfline.engine.handle import EngineHandle
from halfline.engine.sequence import Work
from halfline.engine.speculation.repeats import Repeats
from halfline.kv.namespace import namespace
from halfline.model.executor import CAUSAL
from halfline.pipeline.draft_texts import DraftTexts
from halfline.pipeline.postprocess.postprocessing import Postprocessing
from halfline.pipeline.prompt import Prompt
from halfline.pipeline.typed_through import Greedy
from halfline.request import CompletionRequest, Document, Priority, SamplingParams
from halfline.sampling.healing import HealingSampler
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.text.detokenizer import Detokenizer
from halfline.text.spellings import Spellings
from halfline.text.tokenizer import Tokenizer


class Works:
    """Knows what the engine needs of a request, and nothing of answers."""

    def __init__(
        self, engine: EngineHandle, tokenizer: Tokenizer, spellings: Spellings, model_name: str
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._spellings = spellings
        self._model_name = model_name
        self._draft_texts = DraftTexts(tokenizer)

    def whole(
        self,
        request: CompletionRequest,
        prompt: Prompt,
        trims: Postprocessing,
        index: int,
        deadline_ms: float | None,
    ) -> Work:
        """The choice at `index`; its answer is wanted in `deadline_ms` from now."""
        work = self.bare(request, prompt, trims, index, deadline_ms)
        return replace(work, draft_sources=self._draft_sources(request, prompt))

    def greedy(
        self,
        request: CompletionRequest,
        prompt: Prompt,
        trims: Postprocessing,
        deadline_ms: float | None = None,
    ) -> Greedy:
        """The only choice of a request that `is_greedy`. Texts to guess from are looked for when they are needed."""

        def work() -> Work:
            return self.bare(request, prompt, trims, 0, deadline_ms)

        # With scores or without, the tokens are the same, but only scored ones can be judged.
        kind = "" if trims.params(request.params).logprobs is None else "scored/"
        return Greedy(
            work(),
            work,
            prompt.forced_text.encode(),
            kind + self._namespace(request),
            lambda: self._draft_sources(request, prompt),
        )

    def reading(self, request: CompletionRequest, token_ids: Sequence[int], priority: Priority) -> Work:
        """Nothing is generated: only its KV is wanted, for prompts to come that begin so."""
        return Work(
            prompt_ids=tuple(token_ids),
            max_new_tokens=0,
            sampler=Sampler(SamplingParams(), ()),
            reader=Reader(Detokenizer(self._tokenizer)),
            stop_token_ids=frozenset(),
            namespace=self._namespace(request),
            priority=priority,
            key=request.key,
            user=request.user,
        )

    def scored(
        self, request: CompletionRequest, prompt_ids: tuple[int, ...], token_ids: Sequence[int]
    ) -> Work:
        """Wanted are the log-probabilities of `token_ids` behind the prompt, of as many as the context holds."""
        whole = (*prompt_ids, *token_ids)[: self._engine.max_sequence_tokens]
        work = self.reading(request, whole, request.priority)
        return replace(work, prompt_logprobs=0, scores_from=len(prompt_ids))

    def bare(
        self,
        request: CompletionRequest,
        prompt: Prompt,
        trims: Postprocessing,
        index: int,
        deadline_ms: float | None,
    ) -> Work:
        """As `whole`, with nothing to guess from."""
        return Work(
            prompt_ids=prompt.token_ids,
            max_new_tokens=prompt.max_new_tokens,
            sampler=self._sampler(trims.params(request.params), prompt, index),
            reader=trims.reader(Detokenizer(self._tokenizer), prompt.forced_text),
            stop_token_ids=prompt.stop_token_ids,
            namespace=self._namespace(request),
            prompt_logprobs=request.params.logprobs if request.echo else None,
            forced_ids=prompt.forced_ids,
            max_forced_tokens=len(prompt.forced_text.encode()),
            priority=request.priority,
            key=request.key,
            user=request.user,
            deadline_ms=deadline_ms,
            begins_the_next=isinstance(request.prompt, Document),
            num_pinned_tokens=request.num_pinned_tokens,
        )

    def _namespace(self, request: CompletionRequest) -> str:
        return namespace(
            tenant=request.tenant,
            model=self._model_name,
            kv_format=self._engine.kv_format.name,
            mask=CAUSAL,
            adapter=None,
        )

    def _sampler(self, params: SamplingParams, prompt: Prompt, index: int) -> Sampler:
        if not prompt.forced_text:
            return Sampler(params, prompt.token_ids, stream=index)
        return HealingSampler(params, prompt.token_ids, index, self._spellings, prompt.forced_text)

    def _draft_sources(self, request: CompletionRequest, prompt: Prompt) -> tuple[Repeats, ...]:
        if not self._engine.speculates:
            return ()
        return self._draft_texts.around(request.tenant, prompt.before, prompt.behind)


def is_greedy(request: CompletionRequest) -> bool:
    """Whether each token of the answer is the best one behind those before it, and nothing more is wanted of it."""
    params = request.params
    neutral = SamplingParams(
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        seed=params.seed,
        stop=params.stop,
        stop_token_ids=params.stop_token_ids,
        ignore_eos=params.ignore_eos,
    )
    return params == neutral and request.num_choices == 1 and request.max_tokens > 0


def is_remembered(request: CompletionRequest) -> bool:
    """Whether its tokens may be known, and will be."""
    return request.caching != "none" and is_greedy(request)
