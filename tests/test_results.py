"""Results: saved, read, waited for, independent of jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, ObservedClock, in_thread, line_of, python, write_lock_held

pytestmark = pytest.mark.both_backends


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


@pytest.mark.parametrize("value", [None, False, 0, "", "text", [1, 2], {"a": None}, 10**30])
def test_a_result_comes_back_as_it_was(queue: brant.Queue, value: object) -> None:
    queue.save_result(42, value)
    assert queue.get_result(42) == (True, value)


def test_an_unknown_result_is_not_found(queue: brant.Queue) -> None:
    assert queue.get_result(42) == (False, None)


def test_a_result_may_be_replaced(queue: brant.Queue) -> None:
    queue.save_result(42, "old", ttl=1)
    queue.save_result(42, "new")
    assert queue.get_result(42) == (True, "new")


def test_results_are_not_scoped_to_a_queue(queue: brant.Queue) -> None:
    queue.save_result(42, 1)
    assert queue.db.queue("other").get_result(42) == (True, 1)


@pytest.mark.parametrize("ttl", [None, 0, -1])
def test_a_result_without_a_time_is_kept(queue: brant.Queue, clock: FakeClock, ttl: float | None) -> None:
    queue.save_result(42, 1, ttl=ttl)
    clock.advance(10**9)
    assert queue.get_result(42) == (True, 1)
    assert queue.sweep_results() == 0


@pytest.mark.parametrize("ttl", [5, 0.5])
def test_a_result_is_there_until_its_time_is_over(queue: brant.Queue, clock: FakeClock, ttl: float) -> None:
    queue.save_result(42, 1, ttl=ttl)
    clock.advance(ttl - 0.125)
    assert queue.get_result(42) == (True, 1)
    clock.advance(0.125)
    assert queue.get_result(42) == (False, None)


def test_a_whole_time_is_never_cut_short(queue: brant.Queue, clock: FakeClock) -> None:
    clock.advance(0.9)
    queue.save_result(42, 1, ttl=1)
    clock.advance(0.999)
    assert queue.get_result(42) == (True, 1)


def test_sweeping_deletes_the_results_of_all_queues_whose_time_is_over(queue: brant.Queue, clock: FakeClock) -> None:
    queue.save_result(1, 1, ttl=5)
    queue.db.queue("other").save_result(2, 2, ttl=5)
    queue.save_result(3, 3, ttl=50)
    clock.advance(5)
    assert queue.sweep_results() == 2
    assert queue.db.query("SELECT job_id FROM _honker_results") == [{"job_id": 3}]


@pytest.mark.guarantee("G1")
def test_a_result_commits_with_its_transaction(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        queue.save_result(1, "kept", tx=tx)
    with pytest.raises(ZeroDivisionError), queue.db.transaction() as tx:
        queue.save_result(2, "lost", tx=tx)
        raise ZeroDivisionError
    assert (queue.get_result(1), queue.get_result(2)) == ((True, "kept"), (False, None))


def test_waiting_for_a_result_that_is_there_gives_it(queue: brant.Queue) -> None:
    queue.save_result(42, None)
    assert queue.wait_result_sync(42, timeout=0) is None
    assert asyncio.run(queue.wait_result(42, timeout=0)) is None


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_wait_without_time_looks_once(queue: brant.Queue, timeout: float) -> None:
    with pytest.raises(TimeoutError, match="42"):
        queue.wait_result_sync(42, timeout=timeout)
    with pytest.raises(TimeoutError, match="42"):
        asyncio.run(queue.wait_result(42, timeout=timeout))


@pytest.mark.guarantee("G9")
def test_a_thread_that_waits_is_woken_by_the_result(path: Path) -> None:
    clock = ObservedClock()
    with brant.open(path, clock=clock) as db:
        waiting = in_thread(db.queue("q").wait_result_sync, 99)
        clock.wait_for_looks(1)
        db.queue("q").save_result(99, {"answer": 42})
        assert waiting.result(PATIENCE_S) == {"answer": 42}


@pytest.mark.guarantee("G9")
def test_a_task_that_waits_is_woken_by_the_result(queue: brant.Queue) -> None:
    async def scenario() -> object:
        waiting = asyncio.create_task(queue.wait_result(99))
        await asyncio.sleep(0)
        await asyncio.to_thread(queue.save_result, 99, "done")
        return await asyncio.wait_for(waiting, PATIENCE_S)

    assert asyncio.run(scenario()) == "done"


def test_a_wait_ends_when_its_time_is_over(path: Path) -> None:
    clock = ObservedClock()
    with brant.open(path, clock=clock) as db:
        waiting = in_thread(db.queue("q").wait_result_sync, 99, timeout=60)
        clock.wait_for_looks(1)
        clock.advance(59)
        clock.advance(1)
        with pytest.raises(TimeoutError):
            waiting.result(PATIENCE_S)


WAIT = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    print("waits", flush=True)
    print(db.queue("q").wait_result_sync(7), flush=True)
"""


@pytest.mark.guarantee("G9")
def test_a_wait_in_another_process_is_woken(db: brant.Database) -> None:
    with python(WAIT, db.path) as process:
        assert line_of(process) == "waits"
        db.queue("q").save_result(7, "from afar")
        assert line_of(process) == "from afar"


def test_waiting_for_a_job_that_died_raises_its_error(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    job = queue.claim_one("w")
    assert job is not None
    job.fail("boom")
    with pytest.raises(brant.TaskFailed, match="boom") as caught:
        queue.wait_result_sync(job_id)
    assert (caught.value.error, caught.value.attempts) == ("boom", 1)
    with pytest.raises(brant.TaskFailed, match="boom"):
        asyncio.run(queue.wait_result(job_id))


def test_a_wait_is_ended_by_the_death_of_the_job(path: Path) -> None:
    clock = ObservedClock()
    with brant.open(path, clock=clock) as db:
        queue = db.queue("q")
        job_id = queue.enqueue(1, max_attempts=1)
        waiting = in_thread(queue.wait_result_sync, job_id)
        clock.wait_for_looks(1)
        job = queue.claim_one("w")
        assert job is not None
        job.retry(0, "last words")
        with pytest.raises(brant.TaskFailed, match="last words"):
            waiting.result(PATIENCE_S)


def test_a_result_wins_over_the_death_of_its_job(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    queue.save_result(job_id, "saved")
    job = queue.claim_one("w")
    assert job is not None
    job.fail("boom")
    assert queue.wait_result_sync(job_id) == "saved"


@pytest.mark.guarantee("G8")
def test_waiting_for_a_result_needs_no_write_lock(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=0) as db:
        db.queue("q").save_result(1, "there")
        with write_lock_held(path):
            assert db.queue("q").wait_result_sync(1, timeout=0) == "there"


def test_closing_the_database_ends_a_wait(path: Path) -> None:
    clock = ObservedClock()
    db = brant.open(path, clock=clock)
    waiting = in_thread(db.queue("q").wait_result_sync, 99)
    clock.wait_for_looks(1)
    db.close()
    with pytest.raises(brant.errors.DatabaseClosed):
        waiting.result(PATIENCE_S)


@pytest.mark.parametrize("job_id", [None, "1", 1.5, 2**70])
@pytest.mark.guarantee("G19")
def test_a_bad_job_id_is_refused(queue: brant.Queue, job_id: int) -> None:
    with pytest.raises(brant.InvalidValue, match="job_id"):
        queue.save_result(job_id, 1)
    with pytest.raises(brant.InvalidValue, match="job_id"):
        queue.wait_result_sync(job_id, timeout=0)
    with pytest.raises(brant.InvalidValue, match="job_id"):
        asyncio.run(queue.wait_result(job_id, timeout=0))


@pytest.mark.parametrize("seconds", ["5", float("nan"), float("inf"), 10**400])
@pytest.mark.guarantee("G19")
def test_a_bad_time_is_refused_and_nothing_is_saved(queue: brant.Queue, seconds: float) -> None:
    with pytest.raises(brant.InvalidValue, match="ttl"):
        queue.save_result(1, 1, ttl=seconds)
    assert queue.get_result(1) == (False, None)
    with pytest.raises(brant.InvalidValue, match="timeout"):
        queue.wait_result_sync(1, timeout=seconds)
    with pytest.raises(brant.InvalidValue, match="timeout"):
        asyncio.run(queue.wait_result(1, timeout=seconds))
