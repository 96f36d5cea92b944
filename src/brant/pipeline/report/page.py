"""The report's page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
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
    tile,
)
from brant.pipeline.report.text import duration, moment, number, share, size, step
from brant.pipeline.report.webhooks import webhook_sections

_MOST_QUEUES = 4
_JOBS = "_brant:jobs"

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Brant pipeline report</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def page(gold: Gold, *, database: str, lake: str) -> str:
    """The whole page as HTML; it refers to nothing outside of itself."""
    with open(os.path.join(os.path.dirname(__file__), "style.css"), encoding="utf-8") as file:
        style = file.read()
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    footer = f"<footer>Made {made} from {escape(lake)}. Times are UTC.</footer>"
    parts = [_header(gold, database), *_sections(gold), footer]
    return _PAGE.format(style=style, body="\n".join(parts))


def _header(gold: Gold, database: str) -> str:
    span = f"{gold.first} to {gold.last}" if gold.last else "no data yet"
    return f"<header><h1>Brant pipeline report</h1><p>{escape(database)} · {span}</p></header>"


def _sections(gold: Gold) -> Iterator[str]:
    events = [row for row in gold.topics if row.get("topic") != _JOBS]
    yield _tiles(gold, events)
    yield from _throughput(gold, events)
    yield from _latency(gold)
    yield from _work(gold)
    yield from _dead(gold)
    yield from webhook_sections(gold)
    for name, rows in gold.others.items():
        yield from _other(name, rows)


def _tiles(gold: Gold, events: Sequence[Row]) -> str:
    completed, dead = total(gold.queues, "completed"), total(gold.queues, "dead")
    failed = total(gold.queues, "failed_attempts")
    tiles = [
        tile("events published", number(total(events, "events")), size(total(events, "bytes"))),
        tile("jobs completed", number(completed), f"{number(total(gold.queues, 'enqueued'))} enqueued"),
        tile("success rate", share(rate(completed, dead)), f"{number(failed)} failed attempts"),
        tile("dead letters", number(dead), "", bad=dead > 0),
        tile("queue wait p95", duration(worst(gold.queues, "wait_p95_s")), "worst window"),
        tile("run time p95", duration(worst(gold.queues, "run_p95_s")), "worst window"),
    ]
    return f'<section class="tiles">{"".join(tiles)}</section>'


def _throughput(gold: Gold, events: Sequence[Row]) -> Iterator[str]:
    timeline = Timeline.of([*events, *gold.queues])
    if timeline is None:
        return
    charts = []
    note = f"per {step(timeline.step_s)}"
    if events:
        series, kinds = shares(timeline, events, "topic", "events")
        charts.append(chart("Events by topic", note, series, kinds, stacks(timeline, series, kinds)))
    if gold.queues:
        charts += _job_charts(timeline, gold.queues, note)
    yield f'<h2>Throughput and failures</h2><section class="charts">{"".join(charts)}</section>'


def _job_charts(timeline: Timeline, queues: Sequence[Row], note: str) -> Iterator[str]:
    done = [timeline.sums(queues, "completed", "completed")]
    yield chart("Jobs completed", note, done, ["good"], stacks(timeline, done, ["good"]))
    failed = [timeline.sums(queues, "retries", "tried again"), timeline.sums(queues, "dead", "dead letters")]
    yield chart("Failed attempts", note, failed, ["warn", "bad"], stacks(timeline, failed, ["warn", "bad"]))
    groups = by(queues, "queue")
    names = busiest(groups, "claimed")[:MOST_LINES]
    ages = [timeline.worst(groups[name], "oldest_age_s", name) for name in names]
    kinds = COLOURS[: len(names)]
    yield chart("Oldest waiting job", note, ages, kinds, lines(timeline, ages, kinds, duration))


def _latency(gold: Gold) -> Iterator[str]:
    timeline = Timeline.of(gold.queues)
    if timeline is None:
        return
    groups = by(gold.queues, "queue")
    charts = []
    for name in busiest(groups, "claimed")[:_MOST_QUEUES]:
        for column, title in (("wait", "queue wait"), ("run", "run time")):
            series = [timeline.worst(groups[name], f"{column}_{p}_s", p) for p in PERCENTILES]
            if any(value is not None for each in series for value in each.values):
                drawn = lines(timeline, series, PERCENTILES, duration)
                note = f"worst window per {step(timeline.step_s)}"
                charts.append(chart(f"{name}: {title}", note, series, PERCENTILES, drawn))
    if charts:
        yield f'<h2>Latency</h2><section class="charts">{"".join(charts)}</section>'


def _work(gold: Gold) -> Iterator[str]:
    for title, rows, column in (("Queues", gold.queues, "queue"), ("Tasks", gold.tasks, "task")):
        if rows:
            groups = by(rows, column)
            names = busiest(groups, "claimed")
            cells = [_work_cells(name, groups[name]) for name in names[:MOST_ROWS]]
            headers = [title[:-1].lower(), "enqueued", "completed", "failed", "retries", "dead", "success"]
            yield f"<h2>{title}</h2>" + table([*headers, "wait p95", "run p95", "run p99"], cells, texts=1)
            yield left_out(len(names))


def _work_cells(name: str, rows: Sequence[Row]) -> list[str]:
    counts = [number(total(rows, column)) for column in ("enqueued", "completed", "failed_attempts", "retries", "dead")]
    succeeded = share(rate(total(rows, "completed"), total(rows, "dead")))
    times = [duration(worst(rows, column)) for column in ("wait_p95_s", "run_p95_s", "run_p99_s")]
    return [escape(name), *counts, succeeded, *times]


def _dead(gold: Gold) -> Iterator[str]:
    if not gold.dead_letters:
        return
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in gold.dead_letters:
        groups.setdefault((str(row.get("queue")), str(row.get("error_class") or "(no error text)")), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: (-total(group[1], "dead"), group[0]))
    most = total(ordered[0][1], "dead")
    cells = [_dead_cells(queue, kind, rows, most) for (queue, kind), rows in ordered[:MOST_ROWS]]
    yield "<h2>Dead letters by kind of error</h2>" + table(
        ["error", "queue", "", "jobs", "first seen", "last seen", "samples"], cells, texts=3
    )
    yield left_out(len(ordered))


def _dead_cells(queue: str, kind: str, rows: Sequence[Row], most: int) -> list[str]:
    count = total(rows, "dead")
    samples = [str(job) for row in rows for job in row.get("sample_job_ids") or ()][:3]
    return [
        f"<code>{escape(kind)}</code>",
        escape(queue),
        bar(count / max(most, 1), "bad"),
        number(count),
        _seen(min(row["first_seen"] for row in rows)),
        _seen(max(row["last_seen"] for row in rows)),
        escape(", ".join(samples)),
    ]


def _seen(at: datetime) -> str:
    return moment(at)


def _other(name: str, rows: Sequence[Row]) -> Iterator[str]:
    """A table of the project's own: its newest rows."""
    yield f"<h2>{escape(name)}</h2>"
    if not rows:
        yield '<p class="note">No rows in these days.</p>'
        return
    newest = sorted(rows, key=lambda row: str(row["date"]), reverse=True)[:MOST_ROWS]
    columns = ["date", *(column for column in rows[0] if column != "date")]
    yield table(columns, [[_cell(row.get(column)) for column in columns] for row in newest], texts=len(columns))
    yield left_out(len(rows))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, datetime):
        return moment(value)
    return "-" if value is None else escape(str(value))
