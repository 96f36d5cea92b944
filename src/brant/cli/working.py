"""What a worker shows of its work: a line for each job that failed, and how far the draining is."""

from __future__ import annotations

import sys
from contextlib import contextmanager

from brant.cli.output import complain
from brant.cli.terminal import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import brant
    from brant.worker.events import WorkerEvent

_REPORTED = ("retry", "dead", "lost", "trouble")
_FINISHED = ("success", "cancel", "dead")


class Reports:
    """Told of each event of the worker, from whatever thread."""

    def __init__(self, bar: Bar | None, *, quiet: bool) -> None:
        self._bar = bar
        self._quiet = quiet
        self.wanted_kinds = frozenset((() if quiet else _REPORTED) + (() if bar is None else _FINISHED))

    def __call__(self, event: WorkerEvent) -> None:
        if event.kind in _REPORTED and not self._quiet:
            line = _line(event)
            complain(line) if self._bar is None else self._bar.print_above(line)
        if event.kind in _FINISHED and self._bar is not None:
            self._bar.advance()


def _line(event: WorkerEvent) -> str:
    facts = {"queue": event.queue, "job": event.job_id, "task": event.task, "attempt": event.attempt}
    known = " ".join(f"{name}={value}" for name, value in facts.items() if value not in (None, ""))
    reason = one_line((event.error or "").strip().partition("\n")[0])
    return f"brant worker: {event.kind} {known}" + (f" error={reason}" if reason else "")


class Bar:
    """A bar on stderr, which grows when more jobs come than there were."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(
            *columns,
            console=Console(stderr=True, highlight=False, markup=False),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._total = total
        self._shown = self.progress.add_task("draining", total=total)

    def advance(self) -> None:
        self.progress.advance(self._shown)
        done = self.progress.tasks[self._shown].completed
        if done > self._total:
            self.progress.update(self._shown, total=done)

    def print_above(self, line: str) -> None:
        self.progress.console.print(line, soft_wrap=True)


@contextmanager
def draining_bar(db: brant.Database, queues: dict[str, int], *, wanted: bool) -> Iterator[Bar | None]:
    """Where somebody watches at a terminal and rich is installed; None otherwise."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    try:
        import rich  # noqa: F401
    except ImportError:
        yield None
        return
    stats = [db.queue(name).stats() for name in queues]
    bar = Bar(sum(each.pending - each.delayed for each in stats))
    with bar.progress:
        yield bar
