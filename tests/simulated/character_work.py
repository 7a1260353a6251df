"""Work for an engine that has no model: token n is character n, and the tokens that must come are known."""

from functools import lru_cache

import numpy as np

from halfline.engine.hash_executor import hash_logits
from halfline.engine.sequence import Work
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Row, Sampler, Scored
from halfline.sampling.stop import StopStrings

VOCAB = 258
GREEDY = SamplingParams()


class Characters:
    """Token n is character n."""

    def push(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


def prompt_of(length: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 256, length)]


def work(
    prompt: list[int],
    max_new_tokens: int = 4,
    params: SamplingParams = GREEDY,
    *,
    stop_token_ids: frozenset[int] = frozenset(),
    namespace: str = "me",
    prompt_logprobs: int | None = None,
) -> Work:
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(params, prompt),
        reader=Reader(Characters(), [StopStrings(params.stop)]),
        stop_token_ids=stop_token_ids,
        namespace=namespace,
        prompt_logprobs=prompt_logprobs,
    )


def alone(prompt: list[int], max_new_tokens: int, params: SamplingParams = GREEDY) -> list[Scored]:
    """The tokens that follow when nothing else exists and nothing is guessed."""
    tokens, sampler = list(prompt), Sampler(params, prompt)
    found = []
    for _ in range(max_new_tokens):
        found.append(sampler.sample(logits_behind(tuple(tokens))))
        tokens.append(found[-1].token_id)
    return found


@lru_cache(maxsize=10_000)
def logits_behind(token_ids: tuple[int, ...]) -> Row:
    return hash_logits(token_ids, VOCAB)


def ids(scored: list[Scored]) -> list[int]:
    return [each.token_id for each in scored]


def text(scored: list[Scored]) -> str:
    return "".join(map(chr, ids(scored)))
