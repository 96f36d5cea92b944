"""The end of a worker: soft, bounded, and without keeping jobs that it does not run."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

import brant
from brant.errors import DatabaseClosed
from brant.testing import FakeClock
from brant.worker import WorkerEvent, current_task
from tests.looping import run
from tests.waiting import PATIENCE_S, ObservedClock, in_thread, line_of, python, write_lock_held
from tests.worker.observing import Heard, running

pytestmark = pytest.mark.both_backends


def test_what_runs_may_finish_and_nothing_new_is_claimed(db: brant.Database) -> None:
    q = db.queue("q")
    go = threading.Event()
    task = q.task("wait")(lambda: go.wait(PATIENCE_S))
    first, second = task(), task()
    with running(db, slots=1, grace_s=PATIENCE_S) as crew:
        crew.wait("start")
        crew.worker.stop()
        go.set()
        crew.ended.result(PATIENCE_S)
    assert first.get(1) is True
    row = q.get_job(second.id)
    assert row is not None
    assert (row["state"], row["attempts"]) == ("pending", 0)


@pytest.mark.parametrize("now", [False, True])
def test_a_coroutine_that_is_cut_off_is_given_back_at_once_with_its_budget(db: brant.Database, now: bool) -> None:
    q = db.queue("q")
    ended = threading.Event()

    @q.task(retries=1)
    async def endless() -> None:
        try:
            await asyncio.sleep(10 * PATIENCE_S)
        finally:
            ended.set()

    answer = endless()
    with running(db, grace_s=10 * PATIENCE_S if now else 0) as crew:
        crew.wait("start")
        crew.stop(now=now)
        assert crew.heard.kinds() == ["start", "release", "stop"]
    assert ended.is_set()
    again = q.claim_one("the next worker")
    assert again is not None
    assert again.id == answer.id
    assert again.attempts <= again.max_attempts
    assert again.retry(0, "and its only attempt is there")
    assert q.get_dead(answer.id) is not None


def test_a_plain_function_that_is_cut_off_keeps_its_lease(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q", visibility_timeout_s=60)
    asked, go = threading.Event(), threading.Event()

    @q.task
    def heedless() -> None:
        while not current_task().cancelled:
            time.sleep(0.001)
        asked.set()
        go.wait(PATIENCE_S)

    answer = heedless()
    with running(timed) as crew:
        crew.wait("start")
        crew.stop()
        assert crew.heard.kinds() == ["start", "lost", "stop"]
    assert asked.wait(PATIENCE_S)
    assert q.claim_one("too early") is None
    clock.advance(61)
    job = q.claim_one("in time")
    assert job is not None
    assert (job.id, job.attempts) == (answer.id, 2)
    go.set()


def test_what_ends_by_itself_when_it_is_cut_off_is_settled(db: brant.Database) -> None:
    @db.queue("q").task
    async def tidy() -> str:
        try:
            await asyncio.sleep(10 * PATIENCE_S)
        except asyncio.CancelledError:
            return "tidied up"
        return "slept"

    answer = tidy()
    with running(db) as crew:
        crew.wait("start")
        crew.stop()
    assert db.queue("q").get_result(answer.id) == (True, "tidied up")


def test_jobs_that_are_claimed_while_the_worker_stops_are_given_back(db: brant.Database) -> None:
    q = db.queue("q")
    task = q.task("sum", retries=1)(lambda: 1)
    with running(db, slots=3) as crew:
        with db.transaction() as tx:
            ids = [task.enqueue(tx=tx).id for _ in range(3)]
            # Claims wait for this block to end; the stop does not.
            crew.worker.stop()
        crew.ended.result(PATIENCE_S)
    settled = [event.job_id or 0 for event in crew.heard.all("success")]
    left = q.claim_batch("next", 9)
    assert sorted([*settled, *(job.id for job in left)]) == ids
    assert all(job.attempts <= job.max_attempts for job in left)


@pytest.mark.parametrize("times", [1, 2])
def test_a_claim_that_is_cancelled_half_way_is_given_back(path: Path, times: int) -> None:
    async def test() -> None:
        clock = ObservedClock()
        with brant.open(path, clock=clock) as db:
            q = db.queue("q")
            q.task("sum")(lambda: 1)
            q.enqueue_many([{}] * 3)
            heard = Heard()
            with write_lock_held(path):
                before = clock.looks()
                worker = asyncio.create_task(db.worker({"q": 3}, scheduler=False, observers=(heard,)).run())
                # A look shows three jobs, and the claim that follows waits for the lock: cancelled there.
                await asyncio.to_thread(clock.wait_for_looks, 1, 1, before)
                for _ in range(times):
                    worker.cancel()
                    await asyncio.sleep(0.01)  # for the loop to pass it on
            with pytest.raises(asyncio.CancelledError):
                await worker
            assert q.stats().pending == 3
            assert heard.kinds() == ["stop"]
            assert [job.max_attempts - job.attempts for job in q.claim_batch("next", 3)] == [2, 2, 2]

    run(test())


def test_cancelling_twice_ends_the_grace(path: Path) -> None:
    async def test() -> None:
        with brant.open(path) as db:
            q = db.queue("q")
            started = asyncio.Event()

            @q.task
            async def endless() -> None:
                started.set()
                await asyncio.sleep(10 * PATIENCE_S)

            endless()
            heard = Heard()
            worker = asyncio.create_task(db.worker(grace_s=10 * PATIENCE_S, observers=(heard,)).run())
            await started.wait()
            worker.cancel()
            done, _ = await asyncio.wait({worker}, timeout=0.05)
            assert not done
            worker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await worker
            assert heard.kinds() == ["start", "release", "stop"]
            assert q.stats().pending == 1

    run(test())


def test_a_stop_before_the_start_and_after_the_end_is_harmless(db: brant.Database) -> None:
    db.queue("q").task("sum")(lambda: 1)()
    worker = db.worker({"q": 1})
    worker.stop()
    asyncio.run(worker.run())
    worker.stop()
    assert db.queue("q").stats().pending == 1
    with pytest.raises(brant.BrantError, match="run already"):
        asyncio.run(worker.run())


def test_the_stop_event_of_the_caller_stops_it(db: brant.Database) -> None:
    async def test() -> None:
        stop = asyncio.Event()
        answer = db.queue("q").task("sum")(lambda: 1)()
        workers = asyncio.create_task(db.run_workers("q", 1, stop))
        assert await answer.aget(PATIENCE_S) == 1
        stop.set()
        await workers

    run(test())


def test_a_closed_database_ends_the_worker_with_an_error(path: Path) -> None:
    db = brant.open(path)
    heard = Heard()
    queues = {"a": 1, "b": 1}
    ended = in_thread(asyncio.run, db.worker(queues, scheduler=False, observers=(heard,)).run())
    commits = db.update_events()
    db.notify("any", 1)
    assert commits.wait(PATIENCE_S)
    db.close()
    with pytest.raises(DatabaseClosed):
        ended.result(PATIENCE_S)


HEEDLESS = """
import asyncio, sys, time
import brant
db = brant.open(sys.argv[1])

@db.queue("q").task
def heedless():
    print("started", flush=True)
    while True:
        time.sleep(1)

heedless()
worker = db.worker(grace_s=0, scheduler=False)

async def main():
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(sys.stdin.readline)
    worker.stop()
    await running

asyncio.run(main())
print("stopped", flush=True)
"""


def test_a_function_that_never_ends_does_not_keep_the_process(path: Path) -> None:
    with python(HEEDLESS, path) as process:
        assert line_of(process) == "started"
        assert process.stdin is not None
        process.stdin.write("stop\n")
        process.stdin.flush()
        assert line_of(process) == "stopped"
        assert process.wait(PATIENCE_S) == 0


def test_a_stop_by_an_observer_of_a_success_lets_nothing_more_start(db: brant.Database) -> None:
    task = db.queue("q").task("sum")(lambda: 1)
    for _ in range(20):
        task()
    heard = Heard()

    def stop_at_once(event: WorkerEvent) -> None:
        if event.kind == "success":
            worker.stop()

    worker = db.worker({"q": 1}, scheduler=False, observers=(heard, stop_at_once))
    asyncio.run(worker.run())
    assert heard.kinds() == ["start", "success", "stop"]
