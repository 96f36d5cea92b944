"""Worker processes that are killed at any moment, with a ledger of what ran when."""

from __future__ import annotations

import os
import time
from pathlib import Path

import brant
from brant.worker import current_task
from tests.faults.actors import Ledger

LEASE_S = 1
TABLES = ("CREATE TABLE effects (job_id)",)


def open_tasks(path: Path) -> tuple[brant.Database, brant.Queue]:
    db = brant.open(path)
    # So many attempts that a job which is killed again and again does not die of it.
    return db, db.queue("tasks", visibility_timeout_s=LEASE_S, max_attempts=1000)


def work(path: Path, folder: Path) -> None:
    """Notes each start and end with the time, which is one for all processes; the effect commits with the ack."""
    ledger = Ledger(folder, "ran")
    db, queue = open_tasks(path)

    @queue.task("note")
    def note(pause_s: float) -> None:
        job = current_task()
        run = f"{job.job_id} {job.attempt} {os.getpid()}"
        ledger.add(f"{run} start {time.monotonic()}")
        time.sleep(pause_s)
        if job.job_id % 2:
            with job.transaction() as tx:
                tx.execute("INSERT INTO effects VALUES (?)", [job.job_id])
        ledger.add(f"{run} end {time.monotonic()}")

    db.run_workers_sync(concurrency=2, scheduler=False)
