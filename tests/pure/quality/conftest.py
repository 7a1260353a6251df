"""A comparison's numbers, made up, for tests of what is done with them."""

from collections.abc import Callable

import numpy as np
import pytest

from halfline.quality.comparison.case import Answer, Case
from halfline.quality.divergence import Scores
from halfline.quality.infilling.suites import Task

MakeCase = Callable[..., Case]


@pytest.fixture
def make_case() -> MakeCase:
    """Three tokens that diverge so far; what was wanted is `a + b`."""

    def make(
        name: str, kl: float, *, baseline: str = "a + b", candidate: str = "a + b", file: int = 0
    ) -> Case:
        return Case(
            task=Task(
                id=name,
                problem=f"file{file}",
                path="x.py",
                prefix="c = ",
                suffix="\nd()\n",
                wanted="a + b",
                single_line=True,
                checks=None,
            ),
            scores=Scores(
                kl=np.array([kl / 2, kl, 0.0]),
                same_top=np.array([True, kl < 1, True]),
                baseline_nll=np.full(3, 1.0),
                candidate_nll=np.full(3, 1.0 + kl),
                cluster=np.full(3, file),
            ),
            baseline=_answer(baseline),
            candidate=_answer(candidate),
        )

    return make


def _answer(text: str) -> Answer:
    return Answer(text=text, passed=None, prompt_tokens=4, computed_tokens=9, ms=3.0)
