"""A comparison in numbers. Three kinds, never in one table:

divergence   teacher forced: how far the candidate's distributions lie from the baseline's, token by token (A8)
fidelity     left to themselves: how alike the candidate's answers are to the baseline's, right or wrong
quality      left to themselves: how good either arm's answers are by the true text, and what changed

A candidate may be faithful to a poor baseline, or better than it by being unlike it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from halfline.quality.comparison import faults, likeness
from halfline.quality.comparison.case import Answer, Case
from halfline.quality.comparison.paired import Change, Mean, change_of, mean_of
from halfline.quality.divergence import Divergence, concatenate, summarize
from halfline.quality.infilling.suites import Task
from halfline.quality.report import record as divergence_record

Found = TypeVar("Found")

Alike = Callable[[Task, str, str], float]
"""A text of a task's hole, and the one it is held to."""

ALIKE: Mapping[str, Alike] = {
    "same": lambda task, text, wanted: float(likeness.is_same(text, wanted)),
    "edit_similarity": lambda task, text, wanted: likeness.edit_similarity(text, wanted),
    "edit_distance": lambda task, text, wanted: float(likeness.edit_distance(text, wanted)),
    "bleu4": lambda task, text, wanted: likeness.bleu4(text, wanted),
    "name_f1": lambda task, text, wanted: likeness.name_f1(
        faults.names_in(task, text), faults.names_in(task, wanted)
    ),
}

FAULTS: Mapping[str, Callable[[Task, str], bool | None]] = {
    "breaks_syntax": faults.breaks_syntax,
    "breaks_indentation": faults.breaks_indentation,
    "repeats_suffix": faults.repeats_suffix,
}

# How many tokens were computed depends on what ran beside them; a prompt's length does not.
COSTS: Mapping[str, Callable[[Answer], float]] = {
    "prompt_tokens": lambda answer: float(answer.prompt_tokens),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A metric that applies to none of the tasks is not in a table. `costs` are tokens per task."""

    num_tasks: int
    num_files: int
    divergence: Divergence
    fidelity: Mapping[str, Mean]
    quality: Mapping[str, Change]
    costs: Mapping[str, Change]

    def record(self) -> dict[str, object]:
        """As plain JSON data."""
        return {**asdict(self), "divergence": divergence_record(self.divergence)}


def report_on(cases: Sequence[Case]) -> Report:
    """The same cases give the same report, to the last digit. Raises ValueError when there are none."""
    if not cases:
        raise ValueError("there are no cases to report on")
    return Report(
        num_tasks=len(cases),
        num_files=len({case.task.problem for case in cases}),
        divergence=summarize(concatenate([case.scores for case in cases])),
        fidelity=_known({name: _fidelity(cases, alike) for name, alike in ALIKE.items()}),
        quality=_known(_quality(cases)),
        costs=_known({name: _cost(cases, cost) for name, cost in COSTS.items()}),
    )


def _fidelity(cases: Sequence[Case], alike: Alike) -> Mean | None:
    return mean_of(
        [(case.task.problem, alike(case.task, case.candidate.text, case.baseline.text)) for case in cases]
    )


def _quality(cases: Sequence[Case]) -> dict[str, Change | None]:
    changes = {
        name if name != "same" else "exact": change_of(
            [
                (
                    case.task.problem,
                    alike(case.task, case.baseline.text, case.task.wanted),
                    alike(case.task, case.candidate.text, case.task.wanted),
                )
                for case in cases
            ],
            binary=name == "same",
        )
        for name, alike in ALIKE.items()
    }
    for name, fault in FAULTS.items():
        changes[name] = _binary(
            cases,
            [(fault(case.task, case.baseline.text), fault(case.task, case.candidate.text)) for case in cases],
        )
    changes["pass@1"] = _binary(cases, [(case.baseline.passed, case.candidate.passed) for case in cases])
    return changes


def _binary(cases: Sequence[Case], found: Sequence[tuple[bool | None, bool | None]]) -> Change | None:
    """Of tasks where both can be told."""
    return change_of(
        [
            (case.task.problem, float(before), float(after))
            for case, (before, after) in zip(cases, found, strict=True)
            if before is not None and after is not None
        ],
        binary=True,
    )


def _cost(cases: Sequence[Case], cost: Callable[[Answer], float]) -> Change | None:
    return change_of(
        [(case.task.problem, cost(case.baseline), cost(case.candidate)) for case in cases], binary=False
    )


def _known(found: Mapping[str, Found | None]) -> dict[str, Found]:
    return {name: each for name, each in found.items() if each is not None}
