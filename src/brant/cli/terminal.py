"""For people at a terminal: aligned tables, ages, questions. For a pipe: tab-separated lines and exact times."""

from __future__ import annotations

import os
import sys
import time

from brant.cli.output import put
from brant.cli.standard_input import is_typed_at_a_terminal
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))


def table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> None:
    """Rows under headers on a terminal, and lines without headers in a pipe. A cell is one line whatever is in it."""
    lines = [[one_line(cell) for cell in row] for row in rows]
    if not is_terminal():
        for line in lines:
            put("\t".join(line))
        return
    try:
        import rich  # noqa: F401
    except ImportError:
        _plain_table(lines, headers)
    else:
        _rich_table(lines, headers)


def _plain_table(lines: list[list[str]], headers: Sequence[str]) -> None:
    import shutil

    grid = [list(headers), *lines]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    room = shutil.get_terminal_size().columns
    for line in grid:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        put("  ".join(cells).rstrip()[:room])


def _rich_table(lines: list[list[str]], headers: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold cyan" if _may_colour() else "")
    for position, header in enumerate(headers):
        # The first column is the key, which people copy: only the others are cut to fit.
        grid.add_column(header, no_wrap=position == 0)
    for line in lines:
        # As Text: a payload that looks like rich's markup is data.
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in line))
    Console(highlight=False).print(grid)


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def stderr_is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _may_colour() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR")


def one_line(text: str) -> str:
    """The text without newlines, tabs and whatever else would move a terminal's cursor."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def when(at: float) -> str:
    """A moment: how long ago on a terminal, in UTC for a pipe."""
    return ago(time.time() - at) if is_terminal() else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def ago(seconds: float) -> str:
    """An age in its largest unit: "3 min ago"; for what is yet to come, "in 3 min"."""
    size = abs(seconds)
    for unit, name in _UNITS:
        if size >= unit:
            count = int(size // unit)
            text = f"{count} {'day' if name == 'days' and count == 1 else name}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "now"


def confirm(question: str) -> bool:
    """Ask at the terminal; where there is none, nobody can answer and --yes has to."""
    # Where stderr is closed nobody sees the question.
    if not is_typed_at_a_terminal() or sys.stderr is None:
        raise InvalidValue(f"{question} There is no terminal to ask at: add --yes to do it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
