"""Progress as people see it: a live line for each query on a terminal, else a line for each batch."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

PROGRAM = """
import sys
from brant.cli.pipeline_progress import ProgressLines
from brant.pipeline.runner import Progress

show = ProgressLines(quiet="quiet" in sys.argv)
show(Progress("archive", 0, 1, 0.5, 4999))
show(Progress("refine-orders", 0, 1000, 100.0, 2))
show(Progress("archive", 1, 5000, 2500.4, 0))
"""
COMMAND = [sys.executable, "-c", PROGRAM]
FIRST = "archive: batch 0, 1 row, 0 rows/s, 4,999 events behind"
SECOND = "refine-orders: batch 0, 1,000 rows, 100 rows/s, 2 batches behind"
LAST = "archive: batch 1, 5,000 rows, 2,500 rows/s, up to date"


def test_a_pipe_gets_plain_lines() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.splitlines() == [FIRST, SECOND, LAST]


def test_quiet_is_quiet() -> None:
    done = subprocess.run([*COMMAND, "quiet"], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_terminal_has_one_line_for_each_query_that_is_drawn_over() -> None:
    master, terminal = pty.openpty()
    subprocess.run(COMMAND, stderr=terminal, check=True)
    os.close(terminal)
    shown = os.read(master, 10_000).decode()
    os.close(master)
    assert screen(shown) == [LAST, SECOND]


def screen(written: str) -> list[str]:
    """What is to be seen after these few of a terminal's sequences."""
    lines: list[str] = []
    row = 0
    for part in written.replace("\r\n", "\n").replace("\x1b[2K", "").split("\n"):
        text = part
        while text.startswith("\x1b["):
            up, _, text = text[2:].partition("A")
            row -= int(up)
        text = text.lstrip("\r")
        if text:
            lines[row : row + 1] = [text]
            row += 1
    return lines
