"""Producers and workers that are killed at any moment, each with a ledger of what was confirmed to it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import brant

BACKLOG = 200
TABLES = ("CREATE TABLE orders (name TEXT PRIMARY KEY)", "CREATE TABLE effects (job_id, name)")


class Ledger:
    """Lines that survive the process: each is on the disk when `add` returns."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._file = os.open(folder / f"{kind}-{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def add(self, line: object) -> None:
        os.write(self._file, f"{line}\n".encode())
        os.fsync(self._file)

    @staticmethod
    def read(folder: Path, kind: str) -> list[str]:
        texts = [file.read_text() for file in folder.glob(f"{kind}-*")]
        # What was cut off by a kill was not confirmed.
        return [line for text in texts for line in text.rpartition("\n")[0].splitlines()]


def produce(path: Path, folder: Path) -> None:
    """An order, its two jobs and its event, all in one transaction; then a line."""
    ledger = Ledger(folder, "committed")
    db = brant.open(path)
    exact, plain, orders = db.queue("exact"), db.queue("plain"), db.stream("orders")
    commits = db.update_events()
    for number in itertools.count():
        while exact.stats().total > BACKLOG:
            commits.wait(1)
        name = f"{os.getpid()}-{number}"
        with db.transaction() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", [name])
            exact.enqueue(name, tx=tx)
            orders.publish(name, tx=tx)
            plain.enqueue(f"{name} {'x' * 2000}", tx=tx)
        ledger.add(name)


def work_exactly_once(path: Path, folder: Path) -> None:
    """The effect and the ack in one transaction; then a line."""
    ledger = Ledger(folder, "settled")
    for job in brant.open(path).queue("exact", visibility_timeout_s=1, max_attempts=4).claim():
        with job.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (?, ?)", [job.id, job.payload])
        ledger.add(job.id)


def work_at_least_once(path: Path, folder: Path) -> None:
    """A line for the start, then the ack, then a line for that."""
    started, settled = Ledger(folder, "started"), Ledger(folder, "settled")
    for job in brant.open(path).queue("plain", visibility_timeout_s=1, max_attempts=4).claim():
        started.add(job.payload.split()[0])
        if job.ack():
            settled.add(job.id)
