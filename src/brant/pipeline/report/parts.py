"""The pieces that the sections of the page are made of."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from brant.pipeline.report.charts import legend
from brant.pipeline.report.gold import Row, Series, Timeline, busiest, by

MOST_LINES = 5
MOST_ROWS = 20
COLOURS = ("c1", "c2", "c3", "c4", "c5")
PERCENTILES = ("p50", "p95", "p99")


def tile(name: str, value: str, more: str, *, bad: bool = False) -> str:
    kind = "value bad" if bad else "value"
    return (
        f'<div class="card tile"><div class="name">{name}</div><div class="{kind}">{value}</div>'
        f'<div class="more">{more}</div></div>'
    )


def rate(completed: int, dead: int) -> float | None:
    return completed / (completed + dead) if completed + dead else None


def shares(timeline: Timeline, rows: Sequence[Row], column: str, counted: str) -> tuple[list[Series], list[str]]:
    """Series of the busiest values of a column, and of the others together; with their colours."""
    groups = by(rows, column)
    names = busiest(groups, counted)
    shown = names if len(names) <= MOST_LINES else names[: MOST_LINES - 1]
    series = [timeline.sums(groups[name], counted, name) for name in shown]
    rest = [row for name in names[len(shown) :] for row in groups[name]]
    if rest:
        series.append(timeline.sums(rest, counted, f"{len(names) - len(shown)} others"))
    return series, [*COLOURS[: len(shown)], *(["c0"] if rest else [])]


def chart(title: str, note: str, series: Sequence[Series], kinds: Sequence[str], drawn: str) -> str:
    return (
        f'<div class="card"><h3>{escape(title)}</h3><p class="note">{escape(note)}</p>'
        f"{legend(series, kinds)}{drawn}</div>"
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """The first `texts` columns are texts, the others numbers."""
    kinds = ["text" if place < texts else "number" for place in range(len(headers))]
    head = "".join(f'<th class="{kind}">{escape(header)}</th>' for header, kind in zip(headers, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(_td(cell, kind) for cell, kind in zip(row, kinds, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _td(cell: str, kind: str) -> str:
    kind = "bars" if cell.startswith('<span class="bar') else kind
    return f'<td class="{kind}">{cell}</td>'


def left_out(count: int) -> str:
    return f'<p class="note">{count - MOST_ROWS} more are not shown.</p>' if count > MOST_ROWS else ""
