"""A bar on stderr, for somebody who waits at a terminal."""

from __future__ import annotations

from brant.cli.terminal import stderr_is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import TypeVar

    Line = TypeVar("Line", str, bytes)

_LINES_A_STEP = 256


def with_progress(lines: Iterable[Line], task: str, *, quiet: bool) -> Generator[Line, None, None]:
    """The lines of a dump as they are, while a bar shows how far they are; without a terminal or rich, no bar."""
    if not quiet and stderr_is_terminal():
        try:
            import rich  # noqa: F401
        except ImportError:
            pass
        else:
            return _with_bar(lines, task)
    return (line for line in lines)


def _with_bar(lines: Iterable[Line], task: str) -> Generator[Line, None, None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        shown = bar.add_task(task, total=None)
        for number, line in enumerate(lines):
            if number == 0:
                bar.update(shown, total=_rows_announced(line))
            elif number % _LINES_A_STEP == 0:
                bar.update(shown, completed=number)
            yield line


def _rows_announced(header: str | bytes) -> int | None:
    import json

    try:
        rows = json.loads(header)["rows"]
    except (ValueError, TypeError, LookupError):
        return None  # no dump, which is for others to say
    return rows if isinstance(rows, int) else None
