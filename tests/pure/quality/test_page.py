"""The page stands alone, shows verdict, margins and worst cases, and lets no model write into it."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from halfline.quality.charts import Bar, interval_chart, tail_chart
from halfline.quality.comparison.case import Case
from halfline.quality.margins import Margins
from halfline.quality.page import page
from halfline.quality.regression_test import run_regression_test

MakeCase = Callable[..., Case]

_VOID = {"meta", "br"}


class Balanced(HTMLParser):
    """Complains of a tag that is not closed by its own."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(markup: str) -> None:
    parser = Balanced()
    parser.feed(markup)
    assert (parser.open, parser.sources) == ([], [])
    assert "<script" not in markup


def test_a_page_is_whole_and_asks_for_nothing_else(make_case: MakeCase) -> None:
    cases = [
        make_case("a", 2.0, candidate="<script>alert(1)</script>", file=1),
        make_case("b", 0.0, baseline="+ x\n- y"),
    ]
    margins = Margins({"p99_kl": 0.1, "min_tasks": 1})
    made = page("int8 <beside> f16", {"seed": 1}, cases, run_regression_test(cases, margins), margins)
    check(made)
    assert "int8 &lt;beside&gt; f16" in made and "&lt;script&gt;alert(1)" in made
    assert "Failed" in made and "p99_kl is 1.9" in made
    assert made.index("a: KL 2 at token 2 of 3") < made.index("b: KL 0 at token")
    passed = page("x", {}, cases, run_regression_test(cases, Margins({})), Margins({}))
    assert "Passed" in passed


@pytest.mark.parametrize("values", [[0.0], [1e-12, 1e-3, 5.0] * 50, [float("inf"), float("nan"), 1.0]])
def test_a_tail_is_drawn_whatever_the_values(values: list[float]) -> None:
    drawn = tail_chart(values, 1e-3)
    check(drawn)
    assert "<polyline" in drawn and 'class="limit"' in drawn and "nan" not in drawn


def test_intervals_are_drawn_around_zero() -> None:
    drawn = interval_chart(
        [
            Bar(name="exact", value=-0.1, low=-0.2, high=0.05),
            Bar(name="pass@1", value=0.0, low=None, high=None),
        ],
        "",
    )
    check(drawn)
    assert drawn.count("<circle") == 2 and drawn.count('class="span"') == 1
    check(interval_chart([], ""))
