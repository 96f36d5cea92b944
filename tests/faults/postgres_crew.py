"""Producers and workers on a Postgres that has accidents, and what must hold afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import brant
from brant.errors import StorageError
from brant.tasks import envelope
from tests.cli.processes import Running, running
from tests.faults.actors import Ledger
from tests.waiting import PATIENCE_S, in_thread

R = TypeVar("R")

BACKLOG = 500
SLOTS = 4
LEASE_S = 2
# The time of an effect is one for all processes of a machine.
TABLES = (
    "CREATE TABLE orders (name text PRIMARY KEY)",
    "CREATE TABLE effects (name text, at double precision)",
)
APP = f"""
import os, time
import brant
from brant.worker import current_task

db = brant.open(os.environ["APP_DATABASE"])
orders = db.queue("orders", visibility_timeout_s={LEASE_S}, max_attempts=1000)

@orders.task("fill", retry_delay_s=0.1, retry_backoff=1)
def fill(name):
    with current_task().transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (?, ?)", [name, time.monotonic()])
"""
WORKER = ("worker", "app:db", "--concurrency", SLOTS, "--no-scheduler")


def in_the_end(call: Callable[[], R]) -> R:
    """As a client does that has to have its answer."""
    for _ in range(PATIENCE_S * 20):
        try:
            return call()
        except StorageError:
            threading.Event().wait(0.05)
    return call()


def place(db: brant.Database, name: str) -> None:
    """An order and its job in one commit; not again if only the answer to the commit was lost."""
    with db.transaction() as tx:
        if not tx.query("SELECT 1 FROM orders WHERE name = ?", [name]):
            tx.execute("INSERT INTO orders VALUES (?)", [name])
            db.queue("orders").enqueue(envelope("fill", (name,), {}), max_attempts=1000, tx=tx)


def produce(address: str, folder: Path) -> None:
    """Orders, a line for each that is sure to be there, until there is a file that says stop."""
    ledger = Ledger(folder, "committed")
    db = in_the_end(lambda: brant.open(address))
    number = 0
    while not (folder / "stop").exists():
        if in_the_end(lambda: db.queue("orders").stats().total) > BACKLOG:
            threading.Event().wait(0.01)
            continue
        for _ in range(10):
            name = f"{os.getpid()}-{number}"
            in_the_end(lambda name=name: place(db, name))  # type: ignore[misc]
            ledger.add(name)
            number += 1


class Crew:
    """Real processes on one database, and the sums of what they did."""

    def __init__(self, address: str, folder: Path, workers: list[Running], producers: Sequence[BaseProcess]) -> None:
        self.db = brant.open(address)
        self._folder = folder
        self._workers = workers
        self._producers = producers
        self._said: list[Future[str]] = []
        for worker in workers:
            assert worker.error_line().startswith("brant worker")  # it says that it runs
            self._said.append(in_thread(worker.stderr.read))

    def effects(self) -> int:
        return int(self._ask("SELECT count(*) AS n FROM effects")[0]["n"])

    def wait_for_effects(self, more: int) -> None:
        enough = self.effects() + more
        self._wait_until(lambda: self.effects() >= enough)

    def stop_producing(self) -> None:
        (self._folder / "stop").touch()
        for producer in self._producers:
            producer.join(PATIENCE_S)
            assert producer.exitcode == 0

    def wait_until_drained(self) -> None:
        self._wait_until(lambda: in_the_end(lambda: self.db.queue("orders").stats().total) == 0)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        """Only while something goes on."""
        last, last_at = -1, time.monotonic()
        while not is_so():
            if (now := self.effects()) != last:
                last, last_at = now, time.monotonic()
            assert time.monotonic() < last_at + PATIENCE_S, "the workers stand still"
            assert all(process.exitcode in (None, 0) for process in self._producers)
            threading.Event().wait(0.05)

    def stop_workers(self) -> None:
        for worker, said in zip(self._workers, self._said, strict=True):
            assert worker.stopped_by(signal.SIGTERM) == 0
            assert "Traceback" not in said.result(PATIENCE_S)

    def assert_nothing_is_lost_or_done_twice(self) -> None:
        orders = Counter(row["name"] for row in self._ask("SELECT name FROM orders"))
        assert set(Ledger.read(self._folder, "committed")) <= set(orders)
        assert Counter(row["name"] for row in self._ask("SELECT name FROM effects")) == orders
        assert self.db.queue("orders").list_dead() == []
        assert self.db.health().ok, self.db.health().problems

    def times(self) -> list[float]:
        return [row["at"] for row in self._ask("SELECT at FROM effects ORDER BY at")]

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        return in_the_end(lambda: self.db.query(sql))


@contextmanager
def crew(address: str, folder: Path, *, workers: int, producers: int) -> Iterator[Crew]:
    (folder / "app.py").write_text(APP, "utf-8")
    with brant.open(address) as db, db.transaction() as tx:
        for table in TABLES:
            tx.execute(table)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["brant.opening", "tests.faults.postgres_crew"])
    producing = [context.Process(target=produce, args=(address, folder), daemon=True) for _ in range(producers)]
    with ExitStack() as stack:
        working = [
            stack.enter_context(running(folder, *WORKER, APP_DATABASE=address, PYTHONUNBUFFERED="1"))
            for _ in range(workers)
        ]
        for process in producing:
            process.start()
            stack.callback(process.kill)
        started = Crew(address, folder, working, producing)
        stack.callback(started.db.close)
        yield started


def seconds_until_back(times: list[float], accidents: list[float]) -> tuple[float, list[float]]:
    """Effects a second before the first accident; the seconds from each to 95 % of that, -1: not before the next."""
    usual = median(rates(times, times[0], accidents[0]) or [0])
    ends = [*accidents[1:], times[-1]]
    return usual, [back(times, start, end, 0.95 * usual) for start, end in zip(accidents, ends, strict=True)]


def rates(times: list[float], start: float, end: float) -> list[int]:
    counted = Counter(int(at - start) for at in times if start <= at)
    return [counted[second] for second in range(int(end - start))]


def back(times: list[float], start: float, end: float, rate: float) -> float:
    """When the first second begins that has so many."""
    begin = start
    while begin + 1 <= end:
        if sum(begin <= at < begin + 1 for at in times) >= rate:
            return begin - start
        begin += 0.1
    return -1
