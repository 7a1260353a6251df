"""What a threshold on the model's confidence is worth: how many answers it leaves, and how many of those are right.

The measure is the geometric mean of the probabilities of an answer's first tokens, of one, of a few or of all.
Knows numbers only: who generated the answers and who typed is the caller's affair.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[^\S\n]*(?:\w+|[^\w\s])")

THRESHOLDS = tuple(step / 20 for step in range(20))


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer that could be shown: its tokens' log-probabilities, at least one, whether its line was exactly what
    the user typed next, and whether at least its first word was.
    """

    logprobs: tuple[float, ...]
    right: bool
    begins_right: bool

    def confidence(self, num_tokens: int | None) -> float:
        """By the first `num_tokens`; None: by all."""
        judged = self.logprobs[:num_tokens]
        return math.exp(math.fsum(judged) / len(judged))


@dataclass(frozen=True, slots=True)
class Point:
    """With `threshold`, `share` of the answers are shown; `precision` of those are right, `first_word` of them begin
    right. None: none is shown.
    """

    threshold: float
    share: float
    precision: float | None
    first_word: float | None


def curve(
    answers: Sequence[Answered], num_tokens: int | None, thresholds: Sequence[float] = THRESHOLDS
) -> list[Point]:
    points = []
    for threshold in thresholds:
        shown = [answer for answer in answers if answer.confidence(num_tokens) >= threshold]
        points.append(
            Point(
                threshold,
                len(shown) / len(answers) if answers else 0.0,
                _share([answer.right for answer in shown]),
                _share([answer.begins_right for answer in shown]),
            )
        )
    return points


def first_word(text: str) -> str:
    """Blanks, then letters and digits, or one other character."""
    found = _WORD.match(text)
    return found[0] if found else ""


def _share(are: Sequence[bool]) -> float | None:
    return sum(are) / len(are) if are else None


def average_precision(answers: Sequence[Answered], num_tokens: int | None) -> float:
    """Mean, over the right answers, of the precision when just those at least so confident are shown: 1 if every right
    answer is more confident than every wrong one. 0 without right answers.
    """
    ordered = sorted(answers, key=lambda answer: answer.confidence(num_tokens), reverse=True)
    num_right, total, place = 0, 0.0, 0
    while place < len(ordered):
        stop = place + 1
        while stop < len(ordered) and ordered[stop].confidence(num_tokens) == ordered[place].confidence(
            num_tokens
        ):
            stop += 1
        right_here = sum(answer.right for answer in ordered[place:stop])
        num_right += right_here
        total += right_here * num_right / stop
        place = stop
    return total / num_right if num_right else 0.0
