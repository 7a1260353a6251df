"""Answers a request from what was answered to exactly the same one before, and keeps what is computed for the next."""

from collections.abc import Callable, Sequence
from functools import partial

from halfline.cache.exact import ExactAnswers, Told
from halfline.engine.sequence import Progress, Work
from halfline.pipeline.answers import Begun, KnownAnswers
from halfline.pipeline.known_tokens import known_outcome, read_known
from halfline.sampling.sampler import Scored


def known_answers(told: Sequence[Told], works: Callable[[], Sequence[Work]]) -> Begun | None:
    """What was told, read anew through the request's own samplers and readers; None where it does not end as it did.

    `works` makes one for each choice.
    """
    progress: list[Progress] = []
    num_known = 0
    for position, (choice, work) in enumerate(zip(told, works(), strict=True)):
        known = read_known(work, choice.tokens, partial(_one_of, works, position))
        if known.finish_reason != choice.finish_reason or len(known.tokens) != len(choice.tokens):
            return None
        num_new = len(known.tokens) - work.reader.num_forced
        outcome = known_outcome(choice.finish_reason, len(work.prompt_ids), num_new)
        progress.append(Progress(len(progress), known.piece, outcome=outcome))
        num_known += num_new
    return Begun(KnownAnswers(progress), "exact", num_known)


def _one_of(works: Callable[[], Sequence[Work]], position: int) -> Work:
    return works()[position]


class Recording:
    """Hears what is computed for one request, and keeps it at the address when all of it is there."""

    def __init__(self, answers: ExactAnswers, address: bytes, num_choices: int) -> None:
        self._answers = answers
        self._address = address
        self._tokens: list[list[Scored]] = [[] for _ in range(num_choices)]
        self._ended: dict[int, Told] = {}

    def __call__(self, position: int, progress: Progress) -> None:
        self._tokens[position] += progress.sampled
        if progress.outcome is None:
            return
        self._ended[position] = Told(tuple(self._tokens[position]), progress.outcome.finish_reason)
        if len(self._ended) == len(self._tokens):
            self._answers.put(self._address, [self._ended[each] for each in range(len(self._tokens))])
