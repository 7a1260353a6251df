"""A comparison as one HTML file that needs nothing else: verdict, tables, drawings, the worst cases."""

import json
from collections.abc import Mapping, Sequence
from html import escape

from halfline.quality import words
from halfline.quality.charts import Bar, interval_chart, tail_chart
from halfline.quality.comparison.case import Case
from halfline.quality.comparison.paired import Change
from halfline.quality.margins import Margins
from halfline.quality.regression_test import Verdict, worst
from halfline.quality.report import rows

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .2rem .8rem .2rem 0; text-align: left }
th { border-bottom: 1px solid #999 } td + td, th + th { text-align: right; font-variant-numeric: tabular-nums }
pre { background: #f4f4f2; padding: .6rem; overflow-x: auto; font-size: 13px } .failed { color: #a40000 }
ins { background: #d9f2d9; text-decoration: none } del { background: #f7d9d9; text-decoration: none }
svg text { font-size: 12px; fill: #444 } svg .zero { stroke: #999 } svg .span { stroke: #27588f; stroke-width: 3 }
svg .limit { stroke: #a40000; stroke-dasharray: 5 4 } svg circle { fill: #27588f }
svg polyline { fill: none; stroke: #27588f; stroke-width: 2 }
"""


def page(
    title: str, run: Mapping[str, object], cases: Sequence[Case], verdict: Verdict, margins: Margins
) -> str:
    """`run` is what the comparison was made of, as JSON data."""
    report = verdict.report
    kl = [float(value) for case in cases for value in case.scores.kl]
    limit = margins.limits.get("p99_kl")
    body = [
        f"<h1>{escape(title)}</h1>",
        _verdict(verdict, margins),
        f"<p>{report.num_tasks} tasks in {report.num_files} files.</p>",
        "<h2>Divergence: both read the true text</h2>",
        _table(("", "value"), rows(report.divergence)),
        "<p>Share of tokens whose KL is larger than this many nats"
        + ("" if limit is None else "; the broken line is the margin of the 99th percentile")
        + ".</p>",
        tail_chart(kl, limit),
        "<h2>Fidelity: the candidate's answers beside the baseline's</h2>",
        _table(words.FIDELITY_HEAD, words.fidelity_rows(report.fidelity)),
        "<h2>Quality: both arms' answers beside the true text</h2>",
        _table(words.QUALITY_HEAD, words.change_rows(report.quality)),
        "<p>Candidate less baseline with 95 % over files, in shares; edit distance is left out.</p>",
        interval_chart(_bars(report.quality), ""),
        "<h2>Cost</h2>",
        _table(words.COSTS_HEAD, words.change_rows(report.costs)),
        "<h2>The worst cases</h2>",
        *(f"<h3>{escape(words.case_head(case))}</h3>{_difference(case)}" for case in worst(cases)),
        "<h2>What was run</h2>",
        f"<pre>{escape(json.dumps(run, indent=1, sort_keys=True))}</pre>",
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _verdict(verdict: Verdict, margins: Margins) -> str:
    if verdict.passed:
        return f"<p><strong>Passed</strong>: within all {len(margins.limits)} margins.</p>"
    broken = "".join(f"<li>{escape(words.breach_sentence(breach))}</li>" for breach in verdict.breaches)
    return f'<p class="failed"><strong>Failed</strong></p><ul class="failed">{broken}</ul>'


def _table(head: words.Row, found: Sequence[words.Row]) -> str:
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in found)
    return f"<table><tr>{cells}</tr>{lines}</table>"


def _bars(quality: Mapping[str, Change]) -> list[Bar]:
    return [
        Bar(
            name=words.NAMES.get(name, name),
            value=change.difference,
            low=None if change.interval is None else change.interval.low,
            high=None if change.interval is None else change.interval.high,
        )
        for name, change in quality.items()
        if name != "edit_distance"
    ]


def _difference(case: Case) -> str:
    lines = words.case_difference(case)
    if not lines:
        return "<p>The same answer.</p>"
    return "<pre>" + "\n".join(_marked(line) for line in lines) + "</pre>"


def _marked(line: str) -> str:
    if line in ("--- baseline", "+++ candidate"):
        return escape(line)
    tag = {"+": "ins", "-": "del"}.get(line[:1])
    return escape(line) if tag is None else f"<{tag}>{escape(line)}</{tag}>"
