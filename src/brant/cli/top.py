"""top: the queues, workers, schedules and streams of a database, looked at again and again."""

from __future__ import annotations

import time
from contextlib import contextmanager

from brant.cli.command import DONE, Command
from brant.cli.numbers import positive_duration
from brant.cli.output import put, put_json
from brant.cli.stopping import StopSignals
from brant.cli.terminal import ago, is_terminal, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator
    from typing import Any

    import brant
    from brant.activity import Flow, RunningJob
    from brant.cli.command import Context
    from brant.inspection import QueueStats

    Look = dict[str, Any]

_INTERVAL_S = 2
_COLUMNS = 80
_HEADINGS = ("QUEUE ", "WORKER ", "SCHEDULE ", "STREAM ")
# The widths of the columns; those of a table, and a space between each two, add up to 80 at the most.
_QUEUES = (-20, 8, 8, 8, 6, 7, 8, 8)
_WORKERS = (-28, -14, -22, 4, 7)
_SCHEDULES = (-40, -28, 10)
_STREAMS = (-30, -28, 10, 8)
_MOST_RUNNING = 20


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        metavar="S",
        type=positive_duration,
        default=_INTERVAL_S,
        help=f"seconds between two looks (default: {_INTERVAL_S})",
    )
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.add_argument("--json", action="store_true", help="one JSON object a look")


def _top(context: Context, options: Namespace) -> int:
    with context.open() as db, _screen(options) as show:
        stop, pause = _alarm()
        looks = Looks(db)
        show(looks.next())
        while not options.once and not stop.requested():
            pause(options.interval)
            if not stop.requested():
                show(looks.next())
    return DONE


def _alarm() -> tuple[StopSignals, Callable[[float], object]]:
    """Sleep that a signal ends, also one that comes just before it: through a pipe, which the signal itself writes to.

    Python's own handler runs between two steps of the interpreter: too late, if the second is to sleep.
    """
    import os
    import select
    import signal

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    stop = StopSignals()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return stop, lambda seconds: select.select([reader], [], [], seconds)


@contextmanager
def _screen(options: Namespace) -> Iterator[Callable[[Look], None]]:
    if options.json:
        yield put_json
        return
    if options.once or not is_terminal():
        yield _print_plain
        return
    try:
        from rich.live import Live
    except ImportError:
        yield _print_plain
        return
    with Live(screen=True, auto_refresh=False) as live:
        yield lambda look: live.update(_text(look), refresh=True)


def _print_plain(look: Look) -> None:
    put("\n".join(lines_of(look)) + "\n")


def _text(look: Look) -> Any:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="crop")
    for line in lines_of(look):
        text.append(line + "\n", style="bold" if line.startswith(_HEADINGS) else "")
    return text


class Looks:
    """Looks at the database, and tells what came and went since the last look."""

    def __init__(self, db: brant.Database) -> None:
        from brant.activity import Watcher

        self._db = db
        self._watcher = Watcher(db, most_running=_MOST_RUNNING)

    def next(self) -> Look:
        look = self._watcher.look()
        return {
            "at": time.time(),
            "queues": [_queue(stats, look.flows.get(stats.queue)) for stats in look.queues],
            "running": [_running(job) for job in look.running],
            "schedules": self._schedules(),
            "streams": [self._stream(name) for name in self._db.list_streams()],
        }

    def _schedules(self) -> list[Look]:
        schedules = [each for each in self._db.scheduler().schedules() if each.enabled]
        return [
            {"schedule": each.name, "queue": each.queue, "next_fire_at": each.next_fire_at, "error": each.error}
            for each in sorted(schedules, key=lambda schedule: schedule.next_fire_at)
        ]

    def _stream(self, name: str) -> Look:
        stream = self._db.stream(name)
        consumers = [{"consumer": each.name, "lag": each.lag} for each in stream.consumers()]
        return {"stream": name, "head": stream.head(), "consumers": consumers}


def _queue(stats: QueueStats, flow: Flow | None) -> Look:
    return {
        "queue": stats.queue,
        "paused": stats.paused,
        "pending": stats.pending,
        "delayed": stats.delayed,
        "processing": stats.processing,
        "dead": stats.dead,
        "oldest_age_s": stats.oldest_age,
        "enqueued_per_s": flow and round(flow.enqueued, 1),
        "finished_per_s": flow and round(flow.finished, 1),
        "rates_are_exact": flow and flow.is_exact,
    }


def _running(job: RunningJob) -> Look:
    return {
        "worker": job.worker_id,
        "queue": job.queue,
        "job_id": job.id,
        "task": job.task,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "lease_left_s": round(job.lease_left_s, 1),
    }


def lines_of(look: Look) -> list[str]:
    """The look for people: up to four tables, none wider than 80 columns."""
    clock = time.strftime("%H:%M:%S", time.localtime(look["at"]))
    running = sum(queue["processing"] for queue in look["queues"])
    tables = [
        _queue_table(look["queues"]),
        _worker_table(look["running"], running),
        _schedule_table(look["schedules"], look["at"]),
        _stream_table(look["streams"]),
    ]
    lines = [f"{clock}  queues: {len(look['queues'])}  running: {running}  streams: {len(look['streams'])}"]
    for table in tables:
        if len(table) > 1:
            lines += ["", *table]
    return lines


def _queue_table(queues: list[Look]) -> list[str]:
    lines = [_row(_QUEUES, "QUEUE", "PENDING", "DELAYED", "RUNNING", "DEAD", "OLDEST", "IN/S", "OUT/S")]
    for each in queues:
        name = f"{each['queue']} (paused)" if each["paused"] else each["queue"]
        counts = (str(each[number]) for number in ("pending", "delayed", "processing", "dead"))
        oldest = "-" if each["oldest_age_s"] is None else _length(each["oldest_age_s"])
        is_exact = each["rates_are_exact"]
        rates = (_rate(each[number], is_exact) for number in ("enqueued_per_s", "finished_per_s"))
        lines.append(_row(_QUEUES, name, *counts, oldest, *rates))
    return lines


def _worker_table(jobs: list[Look], running: int) -> list[str]:
    lines = [_row(_WORKERS, "WORKER", "QUEUE", "TASK", "TRY", "LEASE")]
    for each in jobs:
        task = each["task"] or f"job {each['job_id']}"
        lease = _length(each["lease_left_s"]) if each["lease_left_s"] > 0 else "over"
        tries = f"{each['attempt']}/{each['max_attempts']}"
        lines.append(_row(_WORKERS, each["worker"], each["queue"], _end_of(task, -_WORKERS[2]), tries, lease))
    if running > len(jobs):
        lines.append(f"and {running - len(jobs)} more")
    return lines


def _schedule_table(schedules: list[Look], now: float) -> list[str]:
    lines = [_row(_SCHEDULES, "SCHEDULE", "QUEUE", "NEXT")]
    for each in schedules:
        due = "failing" if each["error"] else ago(now - each["next_fire_at"])
        lines.append(_row(_SCHEDULES, each["schedule"], each["queue"], due))
    return lines


def _stream_table(streams: list[Look]) -> list[str]:
    nobody = [{"consumer": "-", "lag": "-"}]
    rows = [(each, reader) for each in streams for reader in each["consumers"] or nobody]
    lines = [_row(_STREAMS, "STREAM", "CONSUMER", "HEAD", "LAG")]
    for each, reader in rows:
        lines.append(_row(_STREAMS, each["stream"], reader["consumer"], str(each["head"]), str(reader["lag"])))
    return lines


def _row(widths: tuple[int, ...], *cells: str) -> str:
    """Each cell in its column: to the left of one with a negative width, to the right of the others."""
    fitted = (_fitted(cell, width) for cell, width in zip(cells, widths, strict=True))
    return " ".join(fitted)[:_COLUMNS].rstrip()


def _fitted(text: str, width: int) -> str:
    line = one_line(text)
    if width > 0:
        return line.rjust(width)
    return line.ljust(-width) if len(line) <= -width else line[: -width - 1] + "…"


def _end_of(name: str, width: int) -> str:
    """The part that tells tasks apart: that behind the package."""
    return name if len(name) <= width else f"…{name[1 - width :]}"


def _length(seconds: float) -> str:
    return ago(seconds).removesuffix(" ago")


def _rate(rate: float | None, is_exact: bool) -> str:
    if rate is None:
        return "-"
    text = f"{rate:.0f}" if rate >= 1_000 or rate == int(rate) else f"{rate:.1f}"
    return text if is_exact else f"{text}+"


COMMANDS = {
    "top": Command(
        "watch queues, workers, schedules and streams",
        _arguments,
        _top,
        description="Show the numbers of all queues, which worker runs what, when the schedules are due next, and how "
        "far the consumers of streams lag behind, again and again until interrupted. IN/S and OUT/S are the jobs that "
        "came and went, a second. With a + they are the least that it can have been, since a job that came and went "
        "between two looks leaves no trace, unless its queue records events. LEASE is the time until another worker "
        "may have the job; a worker that lives renews it.",
    )
}
