"""Charts as SVG text: lines, and bars in stacks. Colours are classes, so that the page's style decides on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from brant.pipeline.report.gold import Series, Timeline
from brant.pipeline.report.text import moment, number

WIDTH, HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 26
_PLOT_WIDTH = WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT = HEIGHT - _TOP - _BOTTOM
_X_LABELS = 4
_DAY_S = 86_400

Format = Callable[[float], str]


def lines(timeline: Timeline, series: Sequence[Series], kinds: Sequence[str], form: Format = number) -> str:
    """A line for each series; a point without a value breaks it."""
    top = _nice_top(max((value or 0 for each in series for value in each.values), default=0))
    drawn = [part for each, kind in zip(series, kinds, strict=True) for part in _line(each, kind, top)]
    return _svg([*_grid(top, form), *_times(timeline), *drawn, *_hovers(timeline, series, form)], series)


def stacks(timeline: Timeline, series: Sequence[Series], kinds: Sequence[str], form: Format = number) -> str:
    """A bar for each point in time, the series on top of each other, the first at the bottom."""
    heights = [sum(each.values[point] or 0 for each in series) for point in range(timeline.points)]
    top = _nice_top(max(heights, default=0))
    bars = [part for point in range(timeline.points) for part in _stack(timeline, series, kinds, point, top)]
    return _svg([*_grid(top, form), *_times(timeline), *bars, *_hovers(timeline, series, form)], series)


def legend(series: Sequence[Series], kinds: Sequence[str]) -> str:
    items = "".join(
        f'<li><span class="key {kind}"></span>{escape(each.name)}</li>'
        for each, kind in zip(series, kinds, strict=True)
    )
    return f'<ul class="legend">{items}</ul>'


def bar(portion: float, kind: str) -> str:
    """A horizontal bar in a table."""
    return f'<span class="bar {kind}" style="width:{max(portion * 100, 0.5):.1f}%"></span>'


def _svg(parts: Sequence[str], series: Sequence[Series]) -> str:
    label = escape(", ".join(each.name for each in series), quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _line(series: Series, kind: str, top: float) -> Iterator[str]:
    for run in _runs(series.values):
        if len(run) == 1:
            ((point, value),) = run
            x, y = _middle(point, len(series.values)), _y(value, top)
            yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        else:
            path = " ".join(f"{_middle(point, len(series.values)):.1f},{_y(value, top):.1f}" for point, value in run)
            yield f'<polyline class="line {kind}" points="{path}"/>'


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Neighbouring points that have a value."""
    run: list[tuple[int, float]] = []
    for point, value in enumerate(values):
        if value is not None:
            run.append((point, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _stack(timeline: Timeline, series: Sequence[Series], kinds: Sequence[str], point: int, top: float) -> Iterator[str]:
    slot = _PLOT_WIDTH / timeline.points
    # A gap between bars as long as they are wide enough to have one; few bars are no broad blocks.
    width = min(slot - 2 if slot > 6 else slot * 0.9, 48)
    left = _middle(point, timeline.points) - width / 2
    below = 0.0
    for each, kind in zip(series, kinds, strict=True):
        value = each.values[point] or 0
        if value:
            upper, lower = _y(below + value, top), _y(below, top)
            yield (
                f'<rect class="{kind}" x="{left:.1f}" y="{upper:.1f}" width="{width:.1f}" '
                f'height="{max(lower - upper - (1 if below else 0), 0.5):.1f}"/>'
            )
            below += value


def _grid(top: float, form: Format) -> Iterator[str]:
    for part in range(5):
        value = top * part / 4
        y = _y(value, top)
        kind = "axis" if part == 0 else "grid"
        yield f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(form(value))}</text>'


def _times(timeline: Timeline) -> Iterator[str]:
    labels = min(_X_LABELS, timeline.points)
    places = sorted({round(part * (timeline.points - 1) / max(labels - 1, 1)) for part in range(labels)})
    span_s = timeline.step_s * timeline.points
    for place in places:
        at = timeline.at(place)
        text = at.strftime("%d %b") if timeline.step_s >= _DAY_S else moment(at, with_date=span_s > _DAY_S)
        x = _middle(place, timeline.points)
        anchor = "end" if x > WIDTH - 50 else "middle"
        yield f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{text}</text>'


def _hovers(timeline: Timeline, series: Sequence[Series], form: Format) -> Iterator[str]:
    """Invisible columns that tell their numbers."""
    slot = _PLOT_WIDTH / timeline.points
    for point in range(timeline.points):
        told = [f"{each.name}: {form(value)}" for each in series if (value := each.values[point]) is not None]
        if told:
            text = escape("\n".join([moment(timeline.at(point)) + " UTC", *told]))
            x = _LEFT + slot * point
            yield (
                f'<rect class="hover" x="{x:.1f}" y="{_TOP}" width="{slot:.1f}" height="{_PLOT_HEIGHT}">'
                f"<title>{text}</title></rect>"
            )


def _middle(point: int, points: int) -> float:
    return _LEFT + _PLOT_WIDTH * (point + 0.5) / points


def _y(value: float, top: float) -> float:
    return _TOP + _PLOT_HEIGHT * (1 - value / top)


def _nice_top(most: float) -> float:
    """The end of an axis whose quarters are round numbers."""
    if most <= 0:
        return 4.0
    scale: float = 10.0 ** math.floor(math.log10(most))
    return next(step * scale for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12) if step * scale >= most)
