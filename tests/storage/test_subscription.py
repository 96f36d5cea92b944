"""Doorbells: what a waiter may count on, whatever rings."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from brant.errors import StorageError
from brant.storage.subscription import Subscribers

SOON = 5.0


def test_rings_before_a_wait_are_one() -> None:
    bell = Subscribers().subscribe()
    for _ in range(3):
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0.01)
    assert not asyncio.run(bell.wait_async(0.01))


def test_a_ring_from_before_the_loop_ran_is_kept() -> None:
    bell = Subscribers().subscribe()
    bell.ring()
    assert asyncio.run(bell.wait_async(0))


def test_a_cancelled_wait_leaves_the_ring_to_the_next() -> None:
    async def scenario() -> bool:
        bell = Subscribers().subscribe()
        task = asyncio.create_task(bell.wait_async(None))
        await asyncio.sleep(0)
        bell.ring()
        await asyncio.sleep(0)  # the nudge has run, and the task is about to
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await bell.wait_async(0)

    assert asyncio.run(scenario())


@pytest.mark.parametrize("how", ["thread", "task"])
def test_no_ring_is_lost_between_waits(how: str) -> None:
    bell, answered = Subscribers().subscribe(), threading.Semaphore(0)

    def ring() -> None:
        for _ in range(2000):
            bell.ring()
            assert answered.acquire(timeout=SOON)

    async def answer() -> None:
        for _ in range(2000):
            assert await bell.wait_async(SOON)
            answered.release()

    with ThreadPoolExecutor(1) as pool:
        ringing = pool.submit(ring)
        if how == "task":
            asyncio.run(answer())
        else:
            for _ in range(2000):
                assert bell.wait(SOON)
                answered.release()
        ringing.result()


def test_a_failure_is_raised_by_every_wait_with_a_traceback_of_its_own() -> None:
    subscribers = Subscribers()
    bell = subscribers.subscribe()
    subscribers.fail_all(StorageError("gone"))
    raised = []
    for _ in range(3):
        with pytest.raises(StorageError, match="gone") as caught:
            bell.wait(None)
        raised.append(caught)
    assert len({len(caught.traceback) for caught in raised}) == 1
    with pytest.raises(StorageError, match="gone"):
        asyncio.run(bell.wait_async(None))
    with pytest.raises(StorageError, match="gone"):
        subscribers.subscribe()
    assert len(subscribers) == 0


def test_a_closed_doorbell_answers_false_at_once_and_is_rung_no_more() -> None:
    subscribers = Subscribers()
    by_thread, by_task = subscribers.subscribe(), subscribers.subscribe()
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(by_thread.wait, None), pool.submit(lambda: asyncio.run(by_task.wait_async(None)))]
        for bell in (by_thread, by_task, by_thread):
            bell.close()
    assert [answer.result() for answer in answers] == [False, False]
    assert not subscribers
    subscribers.ring_all()
    assert not by_task.wait(None)
    assert not asyncio.run(by_thread.wait_async(None))


def test_a_dropped_doorbell_is_gone() -> None:
    subscribers = Subscribers()
    kept, dropped = subscribers.subscribe(), subscribers.subscribe()
    assert len(subscribers) == 2
    del dropped
    gc.collect()
    assert len(subscribers) == 1
    subscribers.ring_all()
    assert kept.wait(0)
