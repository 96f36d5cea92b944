"""Many processes on one Postgres: each effect once, and jobs in order for whoever is alone."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import pytest

import brant
from tests.servers import Server
from tests.waiting import PATIENCE_S

JOBS = int(os.environ.get("BRANT_POSTGRES_JOBS", "2000"))
PROCESSES = 10 if "BRANT_POSTGRES_JOBS" in os.environ else 4
IN_ORDER = JOBS // 10
PATIENCE_FOR_ALL_S = 600


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


def at_once(work: Callable[..., None], arguments: Sequence[tuple[object, ...]]) -> None:
    """Run it so often, each in a process of its own; all have to end well."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["brant.opening", __name__])
    processes = [context.Process(target=work, args=each, daemon=True) for each in arguments]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(PATIENCE_FOR_ALL_S)
        assert [process.exitcode for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()


def send_and_work(address: str, number: int) -> None:
    """A share of the jobs, and then whatever is there, until nothing is."""
    with brant.open(address) as db:
        queue = db.queue("jobs")
        names = [f"{number}-{job}" for job in range(JOBS // PROCESSES)]
        for start in range(0, len(names), 50):
            queue.enqueue_many(names[start : start + 50])
        worker = db.unique_worker_id()
        commits = db.update_events()
        while queue.stats().total:
            for job in queue.claim_batch(worker, 10):
                with job.transaction() as tx:
                    tx.execute("INSERT INTO effects VALUES (?, ?)", [job.payload, worker])
            if queue.due_in() != 0 and queue.stats().total:
                commits.wait(1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.guarantee("G3")
def test_each_effect_of_what_many_processes_do_happens_once(address: str) -> None:
    with brant.open(address) as db:
        with db.transaction() as tx:
            tx.execute("CREATE TABLE effects (name text, worker text)")
        at_once(send_and_work, [(address, number) for number in range(PROCESSES)])
        effects = db.query("SELECT name, worker FROM effects")
        assert Counter(row["name"] for row in effects) == Counter(
            f"{number}-{job}" for number in range(PROCESSES) for job in range(JOBS // PROCESSES)
        )
        assert db.queue("jobs").list_dead() == []
        print(f"{len(effects)} effects, by worker: {sorted(Counter(row['worker'] for row in effects).values())}")


def send_in_order(address: str, number: int) -> None:
    with brant.open(address) as db:
        for job in range(IN_ORDER):
            db.queue("jobs").enqueue([number, job])


@pytest.mark.guarantee("G6")
def test_one_consumer_gets_the_jobs_of_each_producer_in_order(address: str) -> None:
    got: dict[int, list[int]] = defaultdict(list)
    ids: list[int] = []
    with brant.open(address) as db:
        sending = threading.Thread(target=at_once, args=(send_in_order, [(address, 0), (address, 1)]))
        sending.start()
        for job in db.queue("jobs").claim():
            sender, number = job.payload
            got[sender].append(number)
            ids.append(job.id)
            assert job.ack()
            if len(ids) == 2 * IN_ORDER:
                break
        sending.join(PATIENCE_S)
        assert not sending.is_alive()
    assert got == {sender: list(range(IN_ORDER)) for sender in (0, 1)}
    assert len(set(ids)) == len(ids)
