"""`brant worker` on a real module, killed and stopped in the middle of thousands of jobs, functions and coroutines."""

from __future__ import annotations

import os
import random
import secrets
import signal
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import brant
from brant.tasks import envelope
from tests.cli.processes import Running, running
from tests.faults.actors import Ledger
from tests.faults.test_workers import assert_no_two_at_once
from tests.waiting import PATIENCE_S

JOBS = int(os.environ.get("BRANT_JOBS", "3000"))
BYTES_PER_JOB = 80
SLOTS = 4
LEASE_S = 1
ENDINGS = [signal.SIGKILL, signal.SIGTERM] * 4
# Each line is on the disk before the function goes on. The time is one for all processes.
APP = f"""
import asyncio, os, time
import brant
from brant.worker import current_task

db = brant.open("app.db")
q = db.queue("q", visibility_timeout_s={LEASE_S})
ledger = os.open(f"ledgers/ran-{{os.getpid()}}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

def note(kind):
    task = current_task()
    line = f"{{task.job_id}} {{task.attempt}} {{os.getpid()}} {{kind}} {{time.monotonic()}}\\n"
    os.write(ledger, line.encode())
    os.fsync(ledger)

@q.task("plain")
def plain(number, seconds=0):
    note("start")
    time.sleep(seconds)
    note("end")
    return number * 2

@q.task("awaited")
async def awaited(number, seconds=0):
    note("start")
    await asyncio.sleep(seconds)
    note("end")
    return number * 2
"""
WORKER = ("worker", "app:db", "--concurrency", SLOTS, "--no-scheduler")


def enqueue(queue: brant.Queue, numbers: range, seconds: float = 0, priority: int = 0) -> list[int]:
    calls = [envelope("awaited" if number % 2 else "plain", (number, seconds), {}) for number in numbers]
    # So many attempts that none dies because its worker did.
    return queue.enqueue_many(calls, max_attempts=20, priority=priority)


def written(ledgers: Path) -> int:
    return sum(file.stat().st_size for file in ledgers.iterdir())


def wait_for_bytes(db: brant.Database, ledgers: Path, more: int) -> None:
    """Until the worker has got on by so much, at whatever moment of whatever job."""
    with closing(db.update_events()) as commits:
        enough = written(ledgers) + more
        while written(ledgers) < enough and db.queue("q").exists():
            assert commits.wait(PATIENCE_S), "the worker stands still"


def end(worker: Running, how: signal.Signals) -> None:
    assert worker.stopped_by(how) == (0 if how == signal.SIGTERM else -how)


def wait_until_empty(db: brant.Database) -> None:
    with closing(db.update_events()) as commits:
        while db.queue("q").exists() or db.queue("q").stats().total:
            assert commits.wait(PATIENCE_S), "nobody goes on with what is left"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.guarantee("G2")
def test_of_thousands_of_jobs_none_is_lost_and_none_has_two_runs_at_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
    print(f"again by BRANT_SEED={seed}")
    chance = random.Random(seed)
    (tmp_path / "app.py").write_text(APP, "utf-8")
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    with brant.open(tmp_path / "app.db") as db:
        queue = db.queue("q")
        ids = enqueue(queue, range(JOBS))
        for how in ENDINGS:
            with running(tmp_path, *WORKER) as worker:
                worker.error_line()  # it says that it runs
                wait_for_bytes(db, ledgers, chance.randrange(JOBS * BYTES_PER_JOB // len(ENDINGS)))
                end(worker, how)
        # Ten times the lease, with another worker beside that would take them.
        long = enqueue(queue, range(JOBS, JOBS + 2), seconds=10 * LEASE_S, priority=1)
        with ExitStack() as crew:
            healthy = [crew.enter_context(running(tmp_path, *WORKER)) for _ in range(2)]
            wait_until_empty(db)
            for worker in healthy:
                end(worker, signal.SIGTERM)

        lines = Ledger.read(ledgers, "ran")
        starts = Counter(int(line.split()[0]) for line in lines if " start " in line)
        ends = Counter(int(line.split()[0]) for line in lines if " end " in line)
        assert set(ends) == set(starts) == {*ids, *long}
        assert_no_two_at_once(lines)
        assert [starts[job_id] for job_id in long] == [1, 1]
        assert starts.total() - len(starts) <= ENDINGS.count(signal.SIGKILL) * SLOTS
        answers = [queue.get_result(job_id) for job_id in [*ids, *long]]
        assert answers == [(True, number * 2) for number in range(JOBS + 2)]
        assert queue.list_dead() == []
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    print(f"{len(starts)} jobs, {starts.total()} runs")
