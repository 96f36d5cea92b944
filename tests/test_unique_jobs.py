"""Unique keys: at most one live job a key and queue."""

from __future__ import annotations

import threading

import pytest

import brant
from brant.testing import FakeClock, pending_payloads

pytestmark = [pytest.mark.both_backends, pytest.mark.guarantee("G18")]


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


def claimed(queue: brant.Queue) -> brant.Job:
    job = queue.claim_one("w")
    assert job is not None
    return job


def test_a_second_job_of_a_key_is_not_added_and_the_first_ones_id_is_given(queue: brant.Queue) -> None:
    first = queue.enqueue("first", unique_key="k")
    assert queue.enqueue("second", unique_key="k", priority=9) == first
    assert pending_payloads(queue) == ["first"]


def test_other_keys_queues_and_jobs_without_a_key_are_independent(queue: brant.Queue) -> None:
    ids = {
        queue.enqueue(1, unique_key="k"),
        queue.enqueue(2, unique_key="K"),
        queue.enqueue(3),
        queue.enqueue(4),
        queue.db.queue("other").enqueue(5, unique_key="k"),
    }
    assert len(ids) == 5


def test_the_key_is_held_while_the_job_runs_and_waits_for_a_retry(queue: brant.Queue) -> None:
    first = queue.enqueue(1, unique_key="k")
    job = claimed(queue)
    assert queue.enqueue(2, unique_key="k") == first
    job.retry(60, "later")
    assert queue.enqueue(3, unique_key="k") == first


@pytest.mark.parametrize("end", ["ack", "fail", "cancel", "read", "delete", "plain sql"])
def test_the_key_is_free_when_the_job_is_no_longer_live(queue: brant.Queue, end: str) -> None:
    first = queue.enqueue(1, unique_key="k")
    match end:
        case "ack" | "fail":
            getattr(claimed(queue), end)()
        case "cancel":
            queue.cancel(first)
        case "read":
            queue.read()
        case "delete":
            queue.delete()
        case _:
            with queue.db.transaction() as tx:
                tx.execute("DELETE FROM _honker_live")
    second = queue.enqueue(2, unique_key="k")
    assert second != first
    assert pending_payloads(queue) == [2]


def test_with_a_time_the_key_is_held_after_the_job_is_done(queue: brant.Queue, clock: FakeClock) -> None:
    first = queue.enqueue(1, unique_key="k", unique_for=10)
    claimed(queue).ack()
    clock.advance(9.5)
    assert queue.enqueue(2, unique_key="k", unique_for=10) == first
    assert pending_payloads(queue) == []
    clock.advance(0.5)
    assert queue.enqueue(3, unique_key="k", unique_for=10) != first


def test_with_a_time_the_key_is_held_for_as_long_as_the_job_is_live(queue: brant.Queue, clock: FakeClock) -> None:
    first = queue.enqueue(1, unique_key="k", unique_for=10)
    clock.advance(11)
    assert queue.enqueue(2, unique_key="k", unique_for=10) == first
    assert pending_payloads(queue) == [1]


def test_a_job_that_outlived_its_time_frees_the_key_when_it_is_done(queue: brant.Queue, clock: FakeClock) -> None:
    first = queue.enqueue(1, unique_key="k", unique_for=10)
    clock.advance(11)
    queue.enqueue(2, unique_key="other")
    assert queue.enqueue(2, unique_key="k") == first
    claimed(queue).ack()
    assert queue.enqueue(3, unique_key="k") != first


def test_a_time_may_be_a_fraction(queue: brant.Queue, clock: FakeClock) -> None:
    first = queue.enqueue(1, unique_key="k", unique_for=0.5)
    claimed(queue).ack()
    clock.advance(0.25)
    assert queue.enqueue(2, unique_key="k") == first
    clock.advance(0.25)
    assert queue.enqueue(2, unique_key="k") != first


def test_keys_whose_time_is_over_do_not_pile_up(queue: brant.Queue, clock: FakeClock) -> None:
    for number in range(50):
        queue.enqueue(number, unique_key=f"k{number}", unique_for=1)
    for job in queue.claim_batch("w", 50):
        job.ack()
    clock.advance(2)
    for number in range(10):
        queue.enqueue(number, unique_key=f"new{number}")
    assert queue.db.query("SELECT count(*) AS n FROM _brant_unique") == [{"n": 10}]


def test_a_key_is_not_held_by_a_transaction_that_rolled_back(queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), queue.db.transaction() as tx:
        queue.enqueue(1, tx=tx, unique_key="k")
        raise ZeroDivisionError
    queue.enqueue(2, unique_key="k")
    assert pending_payloads(queue) == [2]


def test_a_key_is_unique_inside_one_transaction(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        first = queue.enqueue(1, tx=tx, unique_key="k")
        assert queue.enqueue(2, tx=tx, unique_key="k") == first
    assert pending_payloads(queue) == [1]


def test_threads_that_add_one_key_at_once_add_one_job(db: brant.Database) -> None:
    queue = db.queue("q")
    start = threading.Barrier(8)
    ids: list[int] = []

    def add() -> None:
        start.wait()
        ids.append(queue.enqueue(1, unique_key="k"))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert queue.stats().pending == 1
