"""Runs one comparison with a bar on the terminal, and shows what came of it: what `run` and `gate` have in common."""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table

from halfline.cli.quality_arms import Side, check_comparable, load_arm, version
from halfline.cli.quality_suites import Suites
from halfline.errors import BadSettings
from halfline.quality import words
from halfline.quality.comparison.case import Case
from halfline.quality.comparison.lines import Lines
from halfline.quality.comparison.run import PASSES, compare
from halfline.quality.infilling.sandbox import run_program
from halfline.quality.margins import Margins
from halfline.quality.page import page
from halfline.quality.regression_test import Verdict, run_regression_test, worst
from halfline.quality.report import rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that is decided before the first token is run; written down as it is."""

    baseline: Side
    candidate: Side
    suites: Suites
    margins: Margins
    max_tokens: int
    seed: int
    plant: str | None = None

    def record(self) -> dict[str, object]:
        return {
            "version": version(),
            "baseline": self.baseline.record(),
            "candidate": self.candidate.record(),
            "suites": self.suites.about,
            "margins": dict(self.margins.limits),
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "plant": self.plant,
        }


def carry_out(comparison: Comparison, record: Path | None, num_at_once: int) -> tuple[list[Case], Verdict]:
    """Both models are in memory meanwhile. Raises HalflineError."""
    check_comparable(comparison.baseline, comparison.candidate)
    tasks = comparison.suites.tasks
    with (
        Lines(record, comparison.record()) as lines,
        Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)) as bar,
    ):
        bars = {name: bar.add_task(name, total=len(tasks)) for name in PASSES}
        cases = asyncio.run(
            compare(
                tasks,
                lambda: load_arm(comparison.baseline, comparison.max_tokens),
                lambda: load_arm(comparison.candidate, comparison.max_tokens, comparison.plant),
                run_program,
                lines,
                num_at_once=num_at_once,
                advanced=lambda done: bar.advance(bars[done]),
            )
        )
    return cases, run_regression_test(cases, comparison.margins)


def show(title: str, comparison: Comparison, verdict: Verdict) -> None:
    """Tables of their own for divergence, fidelity and quality; then what broke the margins, if anything did."""
    console = Console()
    report = verdict.report
    _print(console, (title, "teacher forced"), rows(report.divergence))
    _print(console, words.FIDELITY_HEAD, words.fidelity_rows(report.fidelity))
    _print(console, words.QUALITY_HEAD, words.change_rows(report.quality))
    _print(console, words.COSTS_HEAD, words.change_rows(report.costs))
    for breach in verdict.breaches:
        console.print(f"outside its margin: {words.breach_sentence(breach)}", markup=False)
    if verdict.passed:
        console.print(f"within all {len(comparison.margins.limits)} margins")


def show_worst(cases: Sequence[Case]) -> None:
    console = Console(soft_wrap=True)
    console.print("the worst cases:")
    for line in words.worst_lines(worst(cases)):
        console.print(line, markup=False, highlight=False)


def write_page(
    path: Path, title: str, comparison: Comparison, cases: Sequence[Case], verdict: Verdict
) -> None:
    """Raises BadSettings when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            page(title, comparison.record(), cases, verdict, comparison.margins), encoding="utf-8"
        )
    except OSError as error:
        raise BadSettings(f"the page {path} cannot be written: {error}") from error


def line(comparison: Comparison, verdict: Verdict, more: Mapping[str, object]) -> str:
    """The one line of JSON for scripts; a breach of what cannot be measured has null."""
    return json.dumps(
        {
            **more,
            "passed": verdict.passed,
            "breaches": [
                [each.metric, None if math.isnan(each.measured) else each.measured, each.limit]
                for each in verdict.breaches
            ],
            "run": comparison.record(),
            "report": verdict.report.record(),
        }
    )


def _print(console: Console, head: words.Row, found: Sequence[words.Row]) -> None:
    table = Table(*(escape(cell) for cell in head))  # a title is what somebody typed
    for row in found:
        table.add_row(*row)
    console.print(table)
