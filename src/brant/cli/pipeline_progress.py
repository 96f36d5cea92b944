"""Progress of streaming queries on stderr: one live line a query on a terminal, else a line a batch."""

from __future__ import annotations

import os
import sys

from brant.cli.output import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.pipeline.runner import Progress

_UNITS = {"archive": "events", "archive-deliveries": "deliveries", "archive-attempts": "attempts"}


class ProgressLines:
    """Is called with each progress; ended, it leaves the last state on the screen."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._is_live = sys.stderr is not None and sys.stderr.isatty()
        self._lines: dict[str, str] = {}

    def __call__(self, progress: Progress) -> None:
        if self._quiet:
            return
        text = describe(progress)
        if not self._is_live:
            complain(text)
            return
        drawn = len(self._lines)
        self._lines[progress.name] = text
        self._draw(drawn)

    def _draw(self, drawn: int) -> None:
        """Over what was drawn before: up as many lines as there were, and each line cleared."""
        width = _columns()
        lines = "".join(f"\r\x1b[2K{line[:width]}\n" for line in self._lines.values())
        sys.stderr.write((f"\x1b[{drawn}A" if drawn else "") + lines)
        sys.stderr.flush()


def describe(progress: Progress) -> str:
    rows = "1 row" if progress.rows == 1 else f"{progress.rows:,} rows"
    text = f"{progress.name}: batch {progress.batch}, {rows}, {progress.rows_per_s:,.0f} rows/s"
    if progress.lag is None:
        return text
    unit = _UNITS.get(progress.name, "batches")
    return f"{text}, {progress.lag:,} {unit} behind" if progress.lag else f"{text}, up to date"


def _columns() -> int:
    try:
        return (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1  # some don't know how wide they are
    except OSError:
        return 79
