"""Iterating over claims in an event loop: it never blocks the loop, and cancelling loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import wait as wait_for_threads
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, ObservedExecutor, line_of, python, write_lock_held

pytestmark = pytest.mark.both_backends


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q", visibility_timeout_s=10)


def observed_executor(threads: int | None = None) -> ObservedExecutor:
    executor = ObservedExecutor(threads)
    asyncio.get_running_loop().set_default_executor(executor)
    return executor


def test_async_for_gives_the_jobs_that_are_due_in_order(queue: brant.Queue) -> None:
    queue.enqueue_many([1, 2], priority=-1)
    queue.enqueue(0)

    async def scenario() -> list[object]:
        payloads: list[object] = []
        async for job in queue.claim("w"):
            payloads.append(job.payload)
            job.ack()
            if len(payloads) == 3:
                return payloads
        return []

    assert asyncio.run(scenario()) == [0, 1, 2]


@pytest.mark.guarantee("G9")
def test_a_commit_wakes_a_task_that_waits(queue: brant.Queue) -> None:
    async def scenario() -> object:
        async with queue.claim("w", idle_poll_s=None) as claims:
            waiting = asyncio.ensure_future(anext(claims))
            payloads = []
            for number in range(10):
                await asyncio.to_thread(queue.enqueue, number)
                payloads.append((await asyncio.wait_for(waiting, PATIENCE_S)).payload)
                waiting = asyncio.ensure_future(anext(claims))
            waiting.cancel()
            return payloads

    assert asyncio.run(scenario()) == list(range(10))


ENQUEUER = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    for line in sys.stdin:
        db.queue("q").enqueue(line.strip())
        print("committed", flush=True)
"""


@pytest.mark.guarantee("G9")
def test_a_commit_of_another_process_wakes_a_task(db: brant.Database) -> None:
    async def scenario() -> list[object]:
        payloads: list[object] = []
        async with db.queue("q").claim("w", idle_poll_s=60) as claims:
            for number in range(5):
                waiting = asyncio.ensure_future(anext(claims))
                await asyncio.sleep(0)
                assert process.stdin is not None
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
                assert await asyncio.to_thread(line_of, process) == "committed"
                payloads.append((await asyncio.wait_for(waiting, PATIENCE_S)).payload)
        return payloads

    with python(ENQUEUER, db.path) as process:
        assert asyncio.run(scenario()) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("what", ["delayed", "lapsed"])
def test_time_wakes_a_task_that_waits(queue: brant.Queue, clock: FakeClock, what: str) -> None:
    queue.enqueue(1, delay=11 if what == "delayed" else None)
    if what == "lapsed":
        queue.claim_one("crasher")

    async def scenario() -> object:
        executor = observed_executor()
        async with queue.claim("w", idle_poll_s=None) as claims:
            waiting = asyncio.ensure_future(anext(claims))
            while not (executor.handed and executor.handed[0].done()):
                await asyncio.sleep(0)
            clock.advance(11)
            return (await asyncio.wait_for(waiting, PATIENCE_S)).payload

    assert asyncio.run(scenario()) == 1


def test_the_loop_goes_on_while_a_claim_waits_for_the_write_lock(path: Path, queue: brant.Queue) -> None:
    queue.enqueue(1)

    async def scenario() -> object:
        executor = observed_executor()
        async with queue.claim("w") as claims:
            with write_lock_held(path):
                waiting = asyncio.ensure_future(anext(claims))
                while not (executor.handed and executor.handed[0].running()):
                    await asyncio.sleep(0)
                for _ in range(1_000):
                    await asyncio.sleep(0)
                assert not waiting.done()
            return (await asyncio.wait_for(waiting, PATIENCE_S)).payload

    assert asyncio.run(scenario()) == 1


def test_the_loop_goes_on_while_an_iteration_is_closed_under_a_write_lock(path: Path, queue: brant.Queue) -> None:
    queue.enqueue(1)

    async def scenario() -> None:
        claims = queue.claim("w")
        executor = await cancelled_with_a_job_in_hand(claims, path)
        with write_lock_held(path):
            closing = asyncio.ensure_future(claims.__aexit__(None, None, None))
            while not executor.handed[-1].running():
                await asyncio.sleep(0)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert not closing.done()
        await asyncio.wait_for(closing, PATIENCE_S)

    asyncio.run(scenario())
    assert queue.stats().pending == 1


async def cancelled_with_a_job_in_hand(claims: AsyncIterator[brant.Job], path: Path) -> ObservedExecutor:
    """Cancel a step whose claim is under way in its thread, and let the thread finish."""
    executor = observed_executor()
    with write_lock_held(path):
        step = asyncio.ensure_future(anext(claims))
        while not (executor.handed and executor.handed[0].running()):
            await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
    wait_for_threads(executor.handed, PATIENCE_S)
    return executor


def test_a_cancelled_step_loses_no_job(path: Path, queue: brant.Queue) -> None:
    job_id = queue.enqueue("kept")

    async def scenario() -> brant.Job:
        async with queue.claim("w") as claims:
            await cancelled_with_a_job_in_hand(claims, path)
            assert queue.stats().processing == 1
            return await asyncio.wait_for(anext(claims), PATIENCE_S)

    job = asyncio.run(scenario())
    assert (job.id, job.payload, job.attempts) == (job_id, "kept", 1)
    assert job.ack()


def test_a_step_cancelled_while_it_waits_leaves_the_wake_for_the_next(queue: brant.Queue) -> None:
    async def scenario() -> object:
        async with queue.claim("w", idle_poll_s=None) as claims:
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(claims), 0.01)
            await asyncio.to_thread(queue.enqueue, 1)
            return (await asyncio.wait_for(anext(claims), PATIENCE_S)).payload

    assert asyncio.run(scenario()) == 1


def test_close_gives_back_a_job_that_was_claimed_and_not_handed_out(path: Path, queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)

    async def scenario() -> None:
        async with queue.claim("w") as claims:
            await cancelled_with_a_job_in_hand(claims, path)
            assert queue.stats().processing == 1

    asyncio.run(scenario())
    row = queue.get_job(job_id)
    assert row is not None
    assert (row["state"], row["worker_id"]) == ("pending", None)
    assert row["max_attempts"] - row["attempts"] == queue.max_attempts
    assert queue.claim_one("next") is not None


@pytest.mark.guarantee("G4")
def test_close_gives_back_nothing_that_a_namesake_holds_by_now(
    path: Path, queue: brant.Queue, clock: FakeClock
) -> None:
    queue.enqueue(1)

    async def scenario() -> brant.Job:
        async with queue.claim("pid-1") as claims:
            await cancelled_with_a_job_in_hand(claims, path)
            clock.advance(11)
            namesake = queue.claim_one("pid-1")
            assert namesake is not None
        return namesake

    namesake = asyncio.run(scenario())
    assert namesake.ack()


def test_a_step_whose_thread_starts_after_the_close_claims_nothing(queue: brant.Queue) -> None:
    queue.enqueue(1)

    async def scenario() -> None:
        executor = observed_executor(threads=1)
        unblocked = threading.Event()
        executor.submit(unblocked.wait)
        claims = queue.claim("w")
        step = asyncio.ensure_future(anext(claims))
        while len(executor.handed) < 2:
            await asyncio.sleep(0)
        claims.close()
        unblocked.set()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(step, PATIENCE_S)

    asyncio.run(scenario())
    assert queue.stats().pending == 1


def test_async_iteration_ends_when_it_is_closed(queue: brant.Queue) -> None:
    async def scenario() -> list[brant.Job]:
        claims = queue.claim("w", idle_poll_s=None)

        async def collect() -> list[brant.Job]:
            return [job async for job in claims]

        collecting = asyncio.ensure_future(collect())
        await asyncio.sleep(0)
        await asyncio.to_thread(claims.close)
        return await asyncio.wait_for(collecting, PATIENCE_S)

    assert asyncio.run(scenario()) == []


def test_many_tasks_share_the_jobs_each_once(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(200))

    async def worker(payloads: list[object]) -> None:
        async with queue.claim() as claims:
            async for job in claims:
                await asyncio.to_thread(job.ack)
                if job.payload == "stop":
                    return
                payloads.append(job.payload)

    async def scenario() -> list[object]:
        payloads: list[object] = []
        queue.enqueue_many(["stop"] * 8, priority=-1)
        await asyncio.wait_for(asyncio.gather(*(worker(payloads) for _ in range(8))), PATIENCE_S)
        return payloads

    assert sorted(asyncio.run(scenario()), key=str) == sorted(range(200), key=str)
