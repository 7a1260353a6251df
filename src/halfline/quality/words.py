"""What a comparison says to people: the names and forms of its numbers, and its worst cases as differences."""

import difflib
from collections.abc import Mapping, Sequence

from halfline.quality.comparison.case import Case
from halfline.quality.comparison.paired import Change, Mean
from halfline.quality.divergence import Interval
from halfline.quality.gate import Breach

Row = tuple[str, ...]

NAMES: Mapping[str, str] = {
    "same": "the same answer",
    "exact": "exact match",
    "edit_similarity": "edit similarity",
    "edit_distance": "edit distance (characters)",
    "bleu4": "BLEU-4",
    "name_f1": "F1 of names",
    "breaks_syntax": "breaks the syntax",
    "breaks_indentation": "breaks the indentation",
    "repeats_suffix": "repeats what is behind",
    "prompt_tokens": "tokens of the prompt",
}

FIDELITY_HEAD: Row = ("fidelity: to the baseline's answers", "tasks", "mean", "95 %")
QUALITY_HEAD: Row = (
    "quality: by the true text",
    "tasks",
    "baseline",
    "candidate",
    "difference (95 %)",
    "McNemar p",
)
COSTS_HEAD: Row = ("cost, per task", "tasks", "baseline", "candidate", "difference (95 %)", "")


def fidelity_rows(fidelity: Mapping[str, Mean]) -> list[Row]:
    return [
        (NAMES.get(name, name), f"{mean.num_tasks}", f"{mean.value:.4g}", _span(mean.interval))
        for name, mean in fidelity.items()
    ]


def change_rows(changes: Mapping[str, Change]) -> list[Row]:
    return [
        (
            NAMES.get(name, name),
            f"{change.num_tasks}",
            f"{change.baseline:.4g}",
            f"{change.candidate:.4g}",
            f"{change.difference:+.4g} {_signed(change.interval)}".rstrip(),
            "" if change.p_value is None else f"{change.p_value:.3g}",
        )
        for name, change in changes.items()
    ]


def breach_sentence(breach: Breach) -> str:
    return f"{breach.metric} is {breach.measured:.6g}, the margin is {breach.limit:g}"


def case_difference(case: Case) -> list[str]:
    """What the two wrote, line by line: nothing when they wrote the same."""
    before, after = case.baseline.text.splitlines(), case.candidate.text.splitlines()
    return list(difflib.unified_diff(before, after, "baseline", "candidate", lineterm="", n=2))


def case_head(case: Case) -> str:
    """Which task, and at which of its true tokens the distributions lie farthest apart."""
    if not len(case.scores.kl):
        return case.task.id
    place = int(case.scores.kl.argmax())
    return f"{case.task.id}: KL {case.worst_kl:.3g} at token {place + 1} of {len(case.scores.kl)}"


def worst_lines(cases: Sequence[Case]) -> list[str]:
    lines: list[str] = []
    for case in cases:
        lines += [case_head(case), *(f"    {line}" for line in case_difference(case) or ["the same answer"])]
    return lines


def _span(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.4g} – {interval.high:.4g}"


def _signed(interval: Interval | None) -> str:
    return "" if interval is None else f"({interval.low:+.4g} – {interval.high:+.4g})"
