"""Small drawings for a report that is one file: inline SVG, no script, readable without colour.

Numbers in, markup out; what they mean is the page's business.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _RIGHT = 720, 150, 20
_ROW = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with the ends of its interval (None: none is known), on a line of its own."""

    name: str
    value: float
    low: float | None
    high: float | None


def interval_chart(bars: Sequence[Bar], unit: str) -> str:
    """Values and intervals around a line at zero: what lies on it is no difference."""
    ends = [end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None]
    reach = max([abs(end) for end in ends if math.isfinite(end)], default=0.0) or 1.0
    height = _ROW * len(bars) + 40

    def x(value: float) -> float:
        kept = min(max(value, -reach), reach)
        return _LEFT + (kept + reach) / (2 * reach) * (_WIDTH - _LEFT - _RIGHT)

    parts = [_line(x(0), 0, x(0), height - 30, "zero")]
    for row, bar in enumerate(bars):
        y = _ROW * row + _ROW / 2
        parts.append(_text(_LEFT - 10, y + 4, bar.name, "end"))
        if bar.low is not None and bar.high is not None:
            parts.append(_line(x(bar.low), y, x(bar.high), y, "span"))
        parts.append(f'<circle cx="{x(bar.value):.1f}" cy="{y:.1f}" r="4"/>')
    for value in (-reach, 0.0, reach):
        parts.append(_text(x(value), height - 12, f"{value:+.3g} {unit}" if value else "0", "middle"))
    return _svg(height, parts)


def tail_chart(values: Sequence[float], limit: float | None) -> str:
    """How many of the values lie above each size, both in powers of ten; a line at `limit`, if there is one.

    Values of 1e-9 and less are drawn there: on this scale nothing has no place.
    """
    floor = 1e-9
    ordered = sorted(max(value, floor) if math.isfinite(value) else 1e3 for value in values)
    if not ordered:
        return ""
    count = len(ordered)
    low, high = -9.0, max(1.0, math.ceil(math.log10(ordered[-1])))
    height, bottom = 240, 200
    depth = max(1.0, math.ceil(math.log10(count)))

    def x(value: float) -> float:
        place = (math.log10(max(value, floor)) - low) / (high - low)
        return _LEFT + min(max(place, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)

    def y(share: float) -> float:
        return 10 + min(depth, -math.log10(share)) / depth * (bottom - 10)

    # A point where the share changes by a tenth of its size or more is all that can be seen.
    points, last = [], math.inf
    for index, value in enumerate(ordered):
        share = (count - index) / count
        if share < last * 0.97 or index == count - 1:
            points.append(f"{x(value):.1f},{y(share):.1f}")
            last = share
    parts = [f'<polyline points="{" ".join(points)}"/>']
    if limit is not None and limit > 0:
        parts.append(_line(x(limit), 10, x(limit), bottom, "limit"))
    for power in range(int(low), int(high) + 1, 2):
        parts.append(_text(x(10.0**power), bottom + 20, f"1e{power}", "middle"))
    for power in range(int(depth) + 1):
        parts.append(_text(_LEFT - 10, y(10.0**-power) + 4, f"{100 * 10.0**-power:g} %", "end"))
    return _svg(height, parts)


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" role="img">{"".join(parts)}</svg>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
