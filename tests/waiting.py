"""What tests need to wait on: threads with an answer, looks of a waiter, other processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import psycopg

from brant.testing import FakeClock
from tests.plainly import is_server

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_S = 30


def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Run in a thread of its own that no failing test has to wait for."""
    answer: Future[R] = Future()

    def run() -> None:
        try:
            answer.set_result(function(*args, **kwargs))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


class ObservedClock(FakeClock):
    """Tells how often each thread has asked for the time, which every look at the database does."""

    def __init__(self, now: float = 1_700_000_000) -> None:
        super().__init__(now)
        self._asked: Counter[int] = Counter()
        self._somebody_asked = threading.Condition()

    def now(self) -> float:
        with self._somebody_asked:
            self._asked[threading.get_ident()] += 1
            self._somebody_asked.notify_all()
        return super().now()

    def looks(self) -> Counter[int]:
        """Looks by thread, without those of the thread that asks."""
        with self._somebody_asked:
            others = Counter(self._asked)
        others.pop(threading.get_ident(), None)
        return others

    def wait_for_looks(self, threads: int, each: int = 1, since: Counter[int] | None = None) -> None:
        """Until that many other threads have looked `each` times, or so much more often than `since`."""
        before = Counter() if since is None else since

        def enough() -> bool:
            me = threading.get_ident()
            return sum(count - before[who] >= each for who, count in self._asked.items() if who != me) >= threads

        with self._somebody_asked:
            assert self._somebody_asked.wait_for(enough, PATIENCE_S), f"no {threads} threads looked {each} times"


class ObservedExecutor(ThreadPoolExecutor):
    """Knows what the event loop has handed to threads."""

    def __init__(self, threads: int | None = None) -> None:
        super().__init__(threads)
        self.handed: list[Future[Any]] = []

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future = super().submit(fn, *args, **kwargs)
        self.handed.append(future)
        return future


@contextmanager
def quick_switches() -> Iterator[None]:
    """Threads take turns so often that races show."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


@contextmanager
def write_lock_held(path: Path) -> Iterator[None]:
    """Another connection is in the middle of a write."""
    if is_server(path):
        with _tables_locked(str(path)):
            yield
        return
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


_LOCKS = """
SELECT 'LOCK TABLE ' || string_agg(format('brant.%I', tablename), ', ') || ' IN EXCLUSIVE MODE NOWAIT'
FROM pg_tables WHERE schemaname = 'brant'
"""


@contextmanager
def _tables_locked(address: str) -> Iterator[None]:
    """The same on a server, where a write locks rows alone: every table against every write."""
    give_up_at = time.monotonic() + PATIENCE_S
    with psycopg.connect(address) as other:
        ((statement,),) = other.execute(_LOCKS).fetchall()
        while True:
            try:
                other.execute(statement)
                break
            except psycopg.errors.LockNotAvailable:  # not to wait for those who would then wait for this one
                other.rollback()
                assert time.monotonic() < give_up_at, "somebody writes all the time"
        yield
        other.rollback()


@contextmanager
def python(program: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Another process, killed at the end of the block if it still runs."""
    command = [sys.executable, "-c", program, *map(str, args)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return in_thread(process.stdout.readline).result(PATIENCE_S).strip()
