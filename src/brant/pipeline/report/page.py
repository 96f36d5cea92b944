"""The report's page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from brant.pipeline.report.charts import bar, legend, lines, stacks
from brant.pipeline.report.gold import Gold, Row, Series, Timeline, busiest, by, total, worst
from brant.pipeline.report.text import duration, moment, number, share, size, step

_MOST_LINES = 5
_MOST_QUEUES = 4
_MOST_ROWS = 20
_COLOURS = ("c1", "c2", "c3", "c4", "c5")
_JOBS = "_brant:jobs"
_PERCENTILES = ("p50", "p95", "p99")

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
    for name, rows in gold.others.items():
        yield from _other(name, rows)


def _tiles(gold: Gold, events: Sequence[Row]) -> str:
    completed, dead = total(gold.queues, "completed"), total(gold.queues, "dead")
    failed = total(gold.queues, "failed_attempts")
    tiles = [
        _tile("events published", number(total(events, "events")), size(total(events, "bytes"))),
        _tile("jobs completed", number(completed), f"{number(total(gold.queues, 'enqueued'))} enqueued"),
        _tile("success rate", share(_rate(completed, dead)), f"{number(failed)} failed attempts"),
        _tile("dead letters", number(dead), "", bad=dead > 0),
        _tile("queue wait p95", duration(worst(gold.queues, "wait_p95_s")), "worst window"),
        _tile("run time p95", duration(worst(gold.queues, "run_p95_s")), "worst window"),
    ]
    return f'<section class="tiles">{"".join(tiles)}</section>'


def _tile(name: str, value: str, more: str, *, bad: bool = False) -> str:
    kind = "value bad" if bad else "value"
    return (
        f'<div class="card tile"><div class="name">{name}</div><div class="{kind}">{value}</div>'
        f'<div class="more">{more}</div></div>'
    )


def _rate(completed: int, dead: int) -> float | None:
    return completed / (completed + dead) if completed + dead else None


def _throughput(gold: Gold, events: Sequence[Row]) -> Iterator[str]:
    timeline = Timeline.of([*events, *gold.queues])
    if timeline is None:
        return
    charts = []
    note = f"per {step(timeline.step_s)}"
    if events:
        series, kinds = _by_topic(timeline, events)
        charts.append(_chart("Events by topic", note, series, kinds, stacks(timeline, series, kinds)))
    if gold.queues:
        charts += _job_charts(timeline, gold.queues, note)
    yield f'<h2>Throughput and failures</h2><section class="charts">{"".join(charts)}</section>'


def _job_charts(timeline: Timeline, queues: Sequence[Row], note: str) -> Iterator[str]:
    done = [timeline.sums(queues, "completed", "completed")]
    yield _chart("Jobs completed", note, done, ["good"], stacks(timeline, done, ["good"]))
    failed = [timeline.sums(queues, "retries", "tried again"), timeline.sums(queues, "dead", "dead letters")]
    yield _chart("Failed attempts", note, failed, ["warn", "bad"], stacks(timeline, failed, ["warn", "bad"]))
    groups = by(queues, "queue")
    names = busiest(groups, "claimed")[:_MOST_LINES]
    ages = [timeline.worst(groups[name], "oldest_age_s", name) for name in names]
    kinds = _COLOURS[: len(names)]
    yield _chart("Oldest waiting job", note, ages, kinds, lines(timeline, ages, kinds, duration))


def _by_topic(timeline: Timeline, events: Sequence[Row]) -> tuple[list[Series], list[str]]:
    """The busiest topics, and the others together."""
    groups = by(events, "topic")
    names = busiest(groups, "events")
    shown = names if len(names) <= _MOST_LINES else names[: _MOST_LINES - 1]
    series = [timeline.sums(groups[name], "events", name) for name in shown]
    rest = [row for name in names[len(shown) :] for row in groups[name]]
    if rest:
        series.append(timeline.sums(rest, "events", f"{len(names) - len(shown)} others"))
    return series, [*_COLOURS[: len(shown)], *(["c0"] if rest else [])]


def _latency(gold: Gold) -> Iterator[str]:
    timeline = Timeline.of(gold.queues)
    if timeline is None:
        return
    groups = by(gold.queues, "queue")
    charts = []
    for name in busiest(groups, "claimed")[:_MOST_QUEUES]:
        for column, title in (("wait", "queue wait"), ("run", "run time")):
            series = [timeline.worst(groups[name], f"{column}_{p}_s", p) for p in _PERCENTILES]
            if any(value is not None for each in series for value in each.values):
                drawn = lines(timeline, series, _PERCENTILES, duration)
                note = f"worst window per {step(timeline.step_s)}"
                charts.append(_chart(f"{name}: {title}", note, series, _PERCENTILES, drawn))
    if charts:
        yield f'<h2>Latency</h2><section class="charts">{"".join(charts)}</section>'


def _chart(title: str, note: str, series: Sequence[Series], kinds: Sequence[str], drawn: str) -> str:
    return (
        f'<div class="card"><h3>{escape(title)}</h3><p class="note">{escape(note)}</p>'
        f"{legend(series, kinds)}{drawn}</div>"
    )


def _work(gold: Gold) -> Iterator[str]:
    for title, rows, column in (("Queues", gold.queues, "queue"), ("Tasks", gold.tasks, "task")):
        if rows:
            groups = by(rows, column)
            names = busiest(groups, "claimed")
            cells = [_work_cells(name, groups[name]) for name in names[:_MOST_ROWS]]
            headers = [title[:-1].lower(), "enqueued", "completed", "failed", "retries", "dead", "success"]
            yield f"<h2>{title}</h2>" + _table([*headers, "wait p95", "run p95", "run p99"], cells, texts=1)
            yield _left_out(len(names))


def _work_cells(name: str, rows: Sequence[Row]) -> list[str]:
    counts = [number(total(rows, column)) for column in ("enqueued", "completed", "failed_attempts", "retries", "dead")]
    rate = share(_rate(total(rows, "completed"), total(rows, "dead")))
    times = [duration(worst(rows, column)) for column in ("wait_p95_s", "run_p95_s", "run_p99_s")]
    return [escape(name), *counts, rate, *times]


def _dead(gold: Gold) -> Iterator[str]:
    if not gold.dead_letters:
        return
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in gold.dead_letters:
        groups.setdefault((str(row.get("queue")), str(row.get("error_class") or "(no error text)")), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: (-total(group[1], "dead"), group[0]))
    most = total(ordered[0][1], "dead")
    cells = [_dead_cells(queue, kind, rows, most) for (queue, kind), rows in ordered[:_MOST_ROWS]]
    yield "<h2>Dead letters by kind of error</h2>" + _table(
        ["error", "queue", "", "jobs", "first seen", "last seen", "samples"], cells, texts=3
    )
    yield _left_out(len(ordered))


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
    newest = sorted(rows, key=lambda row: str(row["date"]), reverse=True)[:_MOST_ROWS]
    columns = ["date", *(column for column in rows[0] if column != "date")]
    yield _table(columns, [[_cell(row.get(column)) for column in columns] for row in newest], texts=len(columns))
    yield _left_out(len(rows))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, datetime):
        return moment(value)
    return "-" if value is None else escape(str(value))


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
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


def _left_out(count: int) -> str:
    return f'<p class="note">{count - _MOST_ROWS} more are not shown.</p>' if count > _MOST_ROWS else ""
