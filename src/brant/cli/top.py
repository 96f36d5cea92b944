"""top: the queues, schedules and streams of a database, looked at again and again."""

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
    from brant.cli.command import Context
    from brant.inspection import QueueStats

    Look = dict[str, Any]

_INTERVAL_S = 2
_COLUMNS = 80
_HEADINGS = ("QUEUE ", "SCHEDULE ", "STREAM ")
_NAME, _WIDE_NAME, _SECOND_NAME = 26, 36, 26


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
    """Sleep that a signal ends: through a pipe, which it can write to at any moment, and which therefore stays."""
    import os
    import select

    reader, writer = os.pipe()
    stop = StopSignals(lambda: os.write(writer, b"\0"))
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
    """Looks at the database, and tells what changed since the last one."""

    def __init__(self, db: brant.Database) -> None:
        self._db = db
        self._last_totals: dict[str, int] = {}
        self._last_at: float | None = None

    def next(self) -> Look:
        at = time.monotonic()
        stats = self._db.list_queues()
        look = {
            "at": time.time(),
            "queues": [self._queue(each, at) for each in stats],
            "schedules": self._schedules(),
            "streams": [self._stream(name) for name in self._db.list_streams()],
        }
        self._last_totals = {each.queue: each.total for each in stats}
        self._last_at = at
        return look

    def _queue(self, stats: QueueStats, at: float) -> Look:
        return {
            "queue": stats.queue,
            "paused": stats.paused,
            "pending": stats.pending,
            "delayed": stats.delayed,
            "processing": stats.processing,
            "dead": stats.dead,
            "oldest_age_s": stats.oldest_age,
            "change_per_s": self._change(stats, at),
        }

    def _change(self, stats: QueueStats, at: float) -> float | None:
        """How fast the queue grows, or shrinks: what came less what went, a second."""
        if self._last_at is None or at <= self._last_at:
            return None
        grown = stats.total - self._last_totals.get(stats.queue, 0)
        return round(grown / (at - self._last_at), 1)

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


def lines_of(look: Look) -> list[str]:
    """The look for people: up to three tables, none wider than 80 columns."""
    clock = time.strftime("%H:%M:%S", time.localtime(look["at"]))
    tables = [
        _queue_table(look["queues"]),
        _schedule_table(look["schedules"], look["at"]),
        _stream_table(look["streams"]),
    ]
    lines = [f"{clock}  queues: {len(look['queues'])}  streams: {len(look['streams'])}"]
    for table in tables:
        if len(table) > 1:
            lines += ["", *table]
    return lines


def _queue_table(queues: list[Look]) -> list[str]:
    lines = [_row("QUEUE", _NAME, "PENDING", "DELAYED", "RUNNING", "DEAD", "OLDEST", "NET/S")]
    for each in queues:
        name = f"{each['queue']} (paused)" if each["paused"] else each["queue"]
        change = each["change_per_s"]
        lines.append(
            _row(
                name,
                _NAME,
                *(str(each[number]) for number in ("pending", "delayed", "processing", "dead")),
                "-" if each["oldest_age_s"] is None else ago(each["oldest_age_s"]).removesuffix(" ago"),
                "-" if change is None else f"{change:+g}" if change else "0",
            )
        )
    return lines


def _schedule_table(schedules: list[Look], now: float) -> list[str]:
    lines = [_row("SCHEDULE", _WIDE_NAME, _fitted("QUEUE", _SECOND_NAME), "NEXT")]
    for each in schedules:
        due = "failing" if each["error"] else ago(now - each["next_fire_at"])
        lines.append(_row(each["schedule"], _WIDE_NAME, _fitted(each["queue"], _SECOND_NAME), due))
    return lines


def _stream_table(streams: list[Look]) -> list[str]:
    nobody = [{"consumer": "-", "lag": "-"}]
    rows = [(each, consumer) for each in streams for consumer in each["consumers"] or nobody]
    return [
        _row("STREAM", _NAME, _fitted("CONSUMER", _SECOND_NAME), "HEAD", "LAG"),
        *(
            _row(
                each["stream"], _NAME, _fitted(reader["consumer"], _SECOND_NAME), str(each["head"]), str(reader["lag"])
            )
            for each, reader in rows
        ),
    ]


def _row(name: str, width: int, *cells: str) -> str:
    """The name to the left, in its width, and each cell to the right of its column."""
    return " ".join([_fitted(name, width), *(cell.rjust(8) for cell in cells)])[:_COLUMNS].rstrip()


def _fitted(text: str, width: int) -> str:
    line = one_line(text)
    return line.ljust(width) if len(line) <= width else line[: width - 1] + "…"


COMMANDS = {
    "top": Command(
        "watch queues, schedules and streams",
        _arguments,
        _top,
        description="Show the numbers of all queues, when the schedules are due next, and how far the consumers of "
        "streams lag behind, again and again until interrupted. NET/S is what came less what went, a second.",
    )
}
