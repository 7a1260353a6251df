"""One task done by two arms: the nouns of a comparison, and how they lie in a file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from halfline.quality.divergence import Scores
from halfline.quality.infilling.suites import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an arm wrote, whether the file then passed its tests (None: there are none), and what that took."""

    text: str
    passed: bool | None
    prompt_tokens: int
    computed_tokens: int
    ms: float

    def record(self) -> dict[str, object]:
        return asdict(self)

    @staticmethod
    def from_record(line: Mapping[str, Any]) -> "Answer":
        """Raises KeyError."""
        return Answer(**{name: line[name] for name in Answer.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`scores` has an entry per true token that was forced on both arms."""

    task: Task
    scores: Scores
    baseline: Answer
    candidate: Answer

    @property
    def worst_kl(self) -> float:
        """Infinite where it is not a number: what cannot be compared is worst of all."""
        if not len(self.scores.kl):
            return 0.0
        worst = float(self.scores.kl.max())
        return worst if np.isfinite(worst) else float("inf")


def scores_record(scores: Scores) -> dict[str, object]:
    """Every float as it is: JSON keeps all digits."""
    return {
        "kl": scores.kl.tolist(),
        "same_top": scores.same_top.tolist(),
        "baseline_nll": scores.baseline_nll.tolist(),
        "candidate_nll": scores.candidate_nll.tolist(),
    }


def scores_from_record(line: Mapping[str, Any]) -> Scores:
    """Of cluster 0: which file it is, the caller knows (`in_cluster`). Raises KeyError."""
    return Scores(
        kl=np.array(line["kl"], np.float64),
        same_top=np.array(line["same_top"], np.bool_),
        baseline_nll=np.array(line["baseline_nll"], np.float64),
        candidate_nll=np.array(line["candidate_nll"], np.float64),
        cluster=np.zeros(len(line["kl"]), np.int64),
    )


def in_cluster(scores: Scores, cluster: int) -> Scores:
    return replace(scores, cluster=np.full(len(scores.kl), cluster, np.int64))
