"""Whether a candidate may take a baseline's place: the articles' `run_regression_test` (A8), corrected.

They look at three sides of an answer: its meaning (BLEU-4), its places (Levenshtein's distance) and the distribution
behind it (KL(original ‖ compressed)), and let a mean KL of 1e-3 pass. A mean hides the worst token, so the tail and the
largest count as well, per token and in float64; and what is said to lose nothing has to lose nothing: 1e-6.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.quality.comparison.case import Case
from halfline.quality.comparison.report import Report, report_on
from halfline.quality.gate import Breach
from halfline.quality.margins import Margins

LOSSY_MEAN_KL = 1e-3
"""The articles' threshold in nats, for what is allowed to lose something."""

LOSSLESS_MEAN_KL = 1e-6
"""For what says that it loses nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    report: Report
    breaches: tuple[Breach, ...]

    @property
    def passed(self) -> bool:
        return not self.breaches


def run_regression_test(cases: Sequence[Case], margins: Margins) -> Verdict:
    """Judge what a comparison found by margins that were there before it. Raises ValueError without cases."""
    report = report_on(cases)
    return Verdict(report, margins.breaches(report))


def worst(cases: Sequence[Case], count: int = 10) -> list[Case]:
    """Those whose worst token diverges most, and of equal ones those whose answers differ."""
    return sorted(cases, key=lambda case: (-case.worst_kl, case.baseline.text == case.candidate.text))[:count]
