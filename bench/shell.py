"""The command: what a run costs from start to end, and what many messages in one run cost."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import brant
from bench.measure import Case

_RUNS_A_TURN = 5
_BULK = 100_000
_TEXT = "x" * 100
_BIN = Path(sys.executable).parent
_BROKER = _BIN / "broker"
_ENQUEUE_MANY = f"""
import brant
with brant.open("library.db") as db:
    db.queue("q").enqueue_many(["{_TEXT}"] * {_BULK})
"""
_READ_MANY = f"""
import brant
with brant.open("library.db") as db:
    assert len(db.queue("q").read_many({_BULK})) == {_BULK}
"""


class Shell:
    """Runs commands in a directory, with bytecode that is compiled and kept for all of them alike."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        self._environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "BROKER_SYNC_MODE": "NORMAL"}

    def run(self, *words: object, stdin: Path | None = None, times: int = 1) -> None:
        command = [str(word) for word in words]
        with Path(stdin or os.devnull).open("rb") as source, (self.folder / "output").open("wb") as output:
            for _ in range(times):
                # Without close_fds, which keeps subprocess from its fastest way to start a process.
                subprocess.run(
                    command,
                    stdin=source,
                    stdout=output,
                    cwd=self.folder,
                    env=self._environment,
                    close_fds=False,
                    check=True,
                )

    def python(self, program: str, times: int = 1) -> None:
        self.run(sys.executable, "-c", program, times=times)

    def brant(self, *words: object, stdin: Path | None = None, times: int = 1) -> None:
        self.run(_BIN / "brant", *words, stdin=stdin, times=times)

    def broker(self, *words: object, times: int = 1) -> None:
        self.run(_BROKER, *words, times=times)

    @cache  # noqa: B019
    def compile(self) -> None:
        """Have the bytecode of whatever is measured written."""
        self.python("import sqlite3")
        self.brant("write", "compiled", "x")
        self.brant("read", "compiled")
        if _BROKER.exists():
            self.broker("write", "compiled", "x")
            self.broker("read", "compiled")

    def fill(self, database: str, count: int) -> None:
        """Have so many messages in a queue, and none besides."""
        self.compile()
        with brant.open(self.folder / database) as db:
            db.queue("q").delete()
            db.queue("q").write_many([_TEXT] * count)

    def empty(self, database: str) -> None:
        self.fill(database, 0)

    def fill_broker(self, count: int) -> None:
        self.compile()
        self.broker("write", "q", _TEXT, times=count)


def cases(folder: Path) -> list[Case]:
    place = folder / "shell"
    place.mkdir()
    shell = Shell(place)
    lines = place / "lines"
    lines.write_text(f"{_TEXT}\n" * _BULK)
    return [*_runs(shell), *_bulk(shell, lines)]


def _runs(shell: Shell) -> list[Case]:
    """Rates are runs a second."""

    def write(count: int) -> None:
        shell.brant("write", "q", _TEXT, times=count)

    def read(count: int) -> None:
        shell.brant("read", "q", times=count)

    def bare(count: int) -> None:
        shell.python("import sqlite3", times=count)

    def fill(count: int) -> None:
        shell.fill(".brant.db", count)

    found = [
        Case(
            f"brant {name}, against python -c 'import sqlite3'", _RUNS_A_TURN, work, bare, 0.4, prepare={"brant": fill}
        )
        for name, work in (("write", write), ("read", read))
    ]
    if not _BROKER.exists():
        return found
    theirs = {
        "write": lambda count: shell.broker("write", "q", _TEXT, times=count),
        "read": lambda count: shell.broker("read", "q", times=count),
    }
    prepare = {"brant": fill, "floor": shell.fill_broker}
    return [
        *found,
        *(
            Case(f"brant {name}, against broker {name}", _RUNS_A_TURN, work, theirs[name], 3, prepare=prepare)
            for name, work in (("write", write), ("read", read))
        ),
    ]


def _bulk(shell: Shell, lines: Path) -> list[Case]:
    """Rates are messages a second, start-up included on both sides."""
    return [
        Case(
            "brant write --lines, against enqueue_many",
            _BULK,
            lambda _: shell.brant("write", "--lines", "q", stdin=lines),
            lambda _: shell.python(_ENQUEUE_MANY),
            0.67,
            prepare={"brant": lambda _: shell.empty(".brant.db"), "floor": lambda _: shell.empty("library.db")},
        ),
        Case(
            "brant read --all, against read_many",
            _BULK,
            lambda _: shell.brant("read", "q", "--all"),
            lambda _: shell.python(_READ_MANY),
            0.67,
            prepare={
                "brant": lambda count: shell.fill(".brant.db", count),
                "floor": lambda count: shell.fill("library.db", count),
            },
        ),
    ]
