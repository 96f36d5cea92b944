"""What the tests of the watcher share: a watched database, other processes that write to it, and waiters."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from brant.errors import DatabaseClosed
from brant.storage.sqlite.wake import Connect, FileWatch
from brant.storage.subscription import Subscription

SOON = 5.0  # a ring that is due comes within this; it is far more than it takes
QUIET = 0.7  # long enough for a ring that must not come, by an event or at the next check, to show
DEAF = 0.2  # without events, a commit takes about twice as long to be noticed

Mode = Literal["auto", "poll"]
MODES: tuple[Mode, ...] = ("auto", "poll")
linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


class App:
    """A database with a table, a connection of its own, and a watch."""

    def __init__(self, path: Path, mode: Mode = "auto", journal: str = "WAL", connect: Connect | None = None) -> None:
        self.path = path
        self.owner = self.connect()
        self.owner.execute(f"PRAGMA journal_mode = {journal}")
        self.owner.execute("CREATE TABLE IF NOT EXISTS t (x)")
        self.watch = FileWatch(str(path), connect or self.connect, mode)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)

    def commit(self) -> None:
        self.owner.execute("INSERT INTO t VALUES (1)")

    def close(self) -> None:
        self.watch.close(DatabaseClosed("closed by the test"))
        self.owner.close()


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA synchronous = FULL")  # a commit is visible only some time after its last write to -wal
print(flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        connection.execute("INSERT INTO t VALUES (1)")
    print(flush=True)
"""


@contextmanager
def other_process(path: Path) -> Iterator[Callable[[int], None]]:
    """A function that has another process make so many commits, and returns when they are made."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        stdout.readline()

        def commit(times: int) -> None:
            print(times, file=stdin, flush=True)
            stdout.readline()

        yield commit
        stdin.close()


@contextmanager
def waiting(subscriptions: list[Subscription]) -> Iterator[list[Future[bool]]]:
    """Threads that wait, one for each subscription but the last, for which a task waits."""
    *threads, task = subscriptions
    with ThreadPoolExecutor(len(subscriptions)) as pool:
        yield [
            *(pool.submit(subscription.wait, SOON) for subscription in threads),
            pool.submit(lambda: asyncio.run(task.wait_async(SOON))),
        ]
