"""Many workers at once: each job is handed out exactly once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import brant
from tests.waiting import PATIENCE_S, in_thread, python

JOBS = 2_000
pytestmark = [pytest.mark.guarantee("G4"), pytest.mark.guarantee("G2")]


def work(queue: brant.Queue, batch: int) -> list[object]:
    done: list[object] = []
    worker = queue.db.unique_worker_id()
    while jobs := queue.claim_batch(worker, batch):
        done += [job.payload for job in jobs if job.ack()]
    return done


@pytest.mark.parametrize("batch", [1, 7])
def test_threads_claim_each_job_exactly_once(db: brant.Database, batch: int) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(JOBS))
    workers = [in_thread(work, queue, batch) for _ in range(8)]
    done = Counter(payload for worker in workers for payload in worker.result(PATIENCE_S))
    assert done == Counter(range(JOBS))
    assert queue.stats().total == 0


def test_threads_with_databases_of_their_own_claim_each_job_exactly_once(path: Path) -> None:
    with ExitStack() as stack:
        databases = [stack.enter_context(brant.open(path)) for _ in range(4)]
        databases[0].queue("q").enqueue_many(range(JOBS))
        workers = [in_thread(work, db.queue("q"), 5) for db in databases]
        done = Counter(payload for worker in workers for payload in worker.result(PATIENCE_S))
    assert done == Counter(range(JOBS))


WORKER = """
import sys, brant
with brant.open(sys.argv[1]) as db, db.queue("q").claim() as claims:
    for job in claims:
        job.ack()
        if job.payload == "stop":
            break
        print(job.payload, flush=True)
"""


def test_processes_claim_each_job_exactly_once_while_jobs_still_come(db: brant.Database) -> None:
    queue = db.queue("q")
    with ExitStack() as stack:
        processes = [stack.enter_context(python(WORKER, db.path)) for _ in range(3)]
        for start in range(0, JOBS, 100):
            queue.enqueue_many(range(start, start + 100))
        queue.enqueue_many(["stop"] * len(processes), priority=-1)
        outputs = [in_thread(process.communicate) for process in processes]
        lines = [line for output in outputs for line in output.result(2 * PATIENCE_S)[0].split()]
        assert [process.returncode for process in processes] == [0, 0, 0]
    assert Counter(lines) == Counter(map(str, range(JOBS)))
    assert queue.stats().total == 0


def test_nothing_is_damaged_afterwards(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(200))
    workers = [in_thread(work, queue, 3) for _ in range(4)]
    for worker in workers:
        worker.result(PATIENCE_S)
    plain = sqlite3.connect(db.path)
    assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plain.close()
