"""The sections about webhooks: who sent how much, what became of it, and what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from brant.pipeline.report.charts import bar, lines, stacks
from brant.pipeline.report.gold import Gold, Row, Timeline, busiest, by, total, worst
from brant.pipeline.report.parts import (
    COLOURS,
    MOST_LINES,
    MOST_ROWS,
    PERCENTILES,
    chart,
    left_out,
    rate,
    shares,
    table,
)
from brant.pipeline.report.text import duration, moment, number, share, step

_COUNTED = ("received", "duplicates", "invalid", "handled", "failed", "retries", "dead")
_NO_PROVIDER = "no provider"


def webhook_sections(gold: Gold) -> Iterator[str]:
    """Nothing at all where there is no inbox."""
    charts = [*_charts(gold.webhooks, _named(gold.webhook_providers)), *_rejects_chart(gold.webhook_rejects)]
    if charts:
        yield f'<h2>Webhooks</h2><section class="charts">{"".join(charts)}</section>'
    if gold.webhooks:
        yield from _endpoints(gold.webhooks)
    if gold.webhook_rejects:
        yield from _rejects(gold.webhook_rejects)


def _named(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "provider": row.get("provider") or _NO_PROVIDER} for row in rows]


def _charts(webhooks: Sequence[Row], providers: Sequence[Row]) -> Iterator[str]:
    timeline = Timeline.of([*webhooks, *providers])
    if timeline is None:
        return
    note = f"per {step(timeline.step_s)}"
    for column, rows in (("endpoint", webhooks), ("provider", providers)):
        series, kinds = shares(timeline, rows, column, "received")
        yield chart(f"Webhooks by {column}", note, series, kinds, stacks(timeline, series, kinds))
    ends = [("handled", "good"), ("retries", "warn"), ("dead", "bad")]
    series, kinds = [timeline.sums(webhooks, name, name) for name, _ in ends], [kind for _, kind in ends]
    yield chart("What became of them", note, series, kinds, stacks(timeline, series, kinds))
    worst_note = f"worst endpoint and window {note}"
    series = [timeline.worst(webhooks, f"handled_{p}_s", p) for p in PERCENTILES]
    yield chart("Receipt to handled", worst_note, series, PERCENTILES, lines(timeline, series, PERCENTILES, duration))
    groups = by(webhooks, "endpoint")
    names = busiest(groups, "received")[:MOST_LINES]
    series = [timeline.worst(groups[name], "oldest_unhandled_s", name) for name in names]
    colours = COLOURS[: len(names)]
    yield chart("Oldest unhandled event", note, series, colours, lines(timeline, series, colours, duration))


def _rejects_chart(rejects: Sequence[Row]) -> Iterator[str]:
    timeline = Timeline.of(rejects)
    if timeline is not None:
        series, kinds = shares(timeline, rejects, "reason", "rejects")
        drawn = stacks(timeline, series, kinds)
        yield chart("Rejected requests by reason", f"per {step(timeline.step_s)}", series, kinds, drawn)


def _endpoints(webhooks: Sequence[Row]) -> Iterator[str]:
    groups = by(webhooks, "endpoint")
    names = busiest(groups, "received")
    headers = ["endpoint", "provider", *_COUNTED, "success", "handled p95", "oldest unhandled"]
    cells = [_endpoint_cells(name, groups[name]) for name in names[:MOST_ROWS]]
    yield "<h2>Endpoints</h2>" + table(headers, cells, texts=2)
    yield left_out(len(names))


def _endpoint_cells(name: str, rows: Sequence[Row]) -> list[str]:
    providers = sorted({row.get("provider") or _NO_PROVIDER for row in rows})
    counts = [number(total(rows, column)) for column in _COUNTED]
    succeeded = share(rate(total(rows, "handled"), total(rows, "dead")))
    times = [duration(worst(rows, column)) for column in ("handled_p95_s", "oldest_unhandled_s")]
    return [escape(name), escape(", ".join(providers)), *counts, succeeded, *times]


def _rejects(rejects: Sequence[Row]) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rejects:
        groups.setdefault((str(row.get("reason")), str(row.get("endpoint")), str(row.get("status"))), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: (-total(group[1], "rejects"), group[0]))
    most = total(ordered[0][1], "rejects")
    cells = [_reject_cells(identity, rows, most) for identity, rows in ordered[:MOST_ROWS]]
    yield "<h2>Rejected requests</h2>" + table(
        ["reason", "endpoint", "answer", "", "requests", "last seen"], cells, texts=4
    )
    yield left_out(len(ordered))


def _reject_cells(identity: tuple[str, str, str], rows: Sequence[Row], most: int) -> list[str]:
    count = total(rows, "rejects")
    last = moment(max(row["last_seen"] for row in rows))
    return [*map(escape, identity), bar(count / max(most, 1), "bad"), number(count), last]
