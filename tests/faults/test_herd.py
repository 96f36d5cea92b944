"""Many idle workers in several processes: a job wakes them all and costs little, and waiting costs next to nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import Popen

import pytest

import brant
from brant.tasks import envelope
from tests.waiting import PATIENCE_S, line_of, python

PROCESSES = 5
WORKERS_EACH = 10
JOBS = 20
WINDOW_S = 2.0
# Answers each line with the transactions so far, and the seconds of CPU that it has used.
WORKERS = """
import asyncio, os, sys, threading
import brant

db = brant.open(sys.argv[1])
db.queue("q").task("double")(lambda number: number * 2)
begins = []
db._storage._writer.set_trace_callback(lambda sql: begins.append(sql) if sql.startswith("BEGIN") else None)

def answer():
    for _ in sys.stdin:
        times = os.times()
        print(len(begins), times.user + times.system, flush=True)

async def work():
    crew = [asyncio.create_task(db.worker({"q": 1}, scheduler=False).run()) for _ in range(int(sys.argv[2]))]
    threading.Thread(target=answer, daemon=True).start()
    await asyncio.gather(*crew)

asyncio.run(work())
"""


def ask(process: Popen[str]) -> tuple[int, float]:
    assert process.stdin is not None
    print(file=process.stdin, flush=True)
    begins, cpu = line_of(process).split()
    return int(begins), float(cpu)


@pytest.fixture
def herd(path: Path, db: brant.Database) -> Iterator[list[Popen[str]]]:
    """Fifty idle workers."""
    with ExitStack() as stack:
        processes = [stack.enter_context(python(WORKERS, path, WORKERS_EACH)) for _ in range(PROCESSES)]
        for process in processes:
            ask(process)
        run_one_by_one(db.queue("q"), JOBS)
        yield processes


def run_one_by_one(queue: brant.Queue, jobs: int) -> None:
    for number in range(jobs):
        job_id = queue.enqueue(envelope("double", (number,), {}))
        assert queue.wait_result_sync(job_id, PATIENCE_S) == number * 2


@pytest.mark.guarantee("G8")
def test_a_job_costs_each_process_two_claims_at_most(db: brant.Database, herd: list[Popen[str]]) -> None:
    before = sum(ask(process)[0] for process in herd)
    run_one_by_one(db.queue("q"), JOBS)
    transactions = sum(ask(process)[0] for process in herd) - before
    # The claim that finds it, what the others try, and the end of the job.
    assert JOBS <= transactions <= JOBS * (2 * PROCESSES + 1)


@pytest.mark.guarantee("G8")
def test_fifty_workers_that_wait_write_nothing_and_use_next_to_no_cpu(
    db: brant.Database, herd: list[Popen[str]]
) -> None:
    before, begun = sum(ask(process)[1] for process in herd), time.monotonic()
    with closing(db.update_events()) as commits:
        assert not commits.wait(WINDOW_S)
    used, elapsed = sum(ask(process)[1] for process in herd) - before, time.monotonic() - begun
    # Loops that never rest would use all that they can get: even where much else runs, far more than this.
    assert used / elapsed < 0.2
    print(f"{PROCESSES * WORKERS_EACH} idle workers: {used / elapsed:.1%} of a CPU")
