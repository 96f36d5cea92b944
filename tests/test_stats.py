"""The numbers of queues."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import write_lock_held

pytestmark = pytest.mark.both_backends


def test_an_unused_queue_is_all_zeros(timed: brant.Database) -> None:
    stats = timed.queue("q").stats()
    assert vars(stats) == {
        "queue": "q",
        "pending": 0,
        "delayed": 0,
        "processing": 0,
        "dead": 0,
        "oldest_age": None,
        "next_run_at": None,
        "paused": False,
    }
    assert (stats.total, stats.claimed, stats.exists) == (0, 0, False)


def test_jobs_are_counted_by_what_may_happen_to_them_next(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(range(7))
    for job in queue.claim_batch("w", 4)[:3]:
        job.fail()
    queue.enqueue(1, delay=60)
    queue.enqueue(1, delay=30)
    stats = queue.stats()
    assert (stats.pending, stats.delayed, stats.processing, stats.dead) == (5, 2, 1, 3)
    assert (stats.total, stats.claimed, stats.exists) == (6, 1, True)
    assert stats.next_run_at == 1_700_000_030


def test_the_age_of_a_queue_is_how_long_its_oldest_due_job_has_been_due(
    timed: brant.Database, clock: FakeClock
) -> None:
    queue = timed.queue("q")
    queue.enqueue(1, delay=10)
    clock.advance(5)
    assert queue.stats().oldest_age is None
    clock.advance(12.5)
    assert queue.stats().oldest_age == 7.5
    queue.claim_one("w")
    assert queue.stats().oldest_age is None


def test_queues_are_counted_apart(db: brant.Database) -> None:
    db.queue("a").enqueue_many(range(2))
    db.queue("b").enqueue(1)
    assert (db.queue("a").stats().pending, db.queue("b").stats().pending) == (2, 1)


def test_all_queues_are_listed_by_name_with_their_numbers(db: brant.Database) -> None:
    db.queue("b").enqueue(1)
    db.queue("a").enqueue_many(range(3))
    db.queue("c").pause()
    assert [(stats.queue, stats.pending, stats.paused) for stats in db.list_queues()] == [
        ("a", 3, False),
        ("b", 1, False),
        ("c", 0, True),
    ]


def test_a_drained_queue_and_one_with_dead_letters_only_are_listed(db: brant.Database) -> None:
    for name in ("drained", "dead"):
        db.queue(name).enqueue(1)
        job = db.queue(name).claim_one("w")
        assert job is not None
        assert job.ack() if name == "drained" else job.fail()
    assert [stats.queue for stats in db.list_queues()] == ["dead", "drained"]


def test_the_list_may_be_narrowed(db: brant.Database) -> None:
    for name in ("mail-in", "mail-out", "sms"):
        db.queue(name).enqueue(1)
    assert [stats.queue for stats in db.list_queues(prefix="mail")] == ["mail-in", "mail-out"]
    assert [stats.queue for stats in db.list_queues(pattern="*-out")] == ["mail-out"]


def test_asking_about_a_queue_does_not_make_it(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.stats()
    queue.claim_one("w")
    queue.is_paused()
    assert db.list_queues() == []


READS = {
    "stats": lambda queue: queue.stats(),
    "list_queues": lambda queue: queue.db.list_queues(),
    "get_job": lambda queue: queue.get_job(1),
    "errors": lambda queue: queue.errors(1),
    "list_dead": lambda queue: queue.list_dead(),
    "get_dead": lambda queue: queue.get_dead(1),
    "get_result": lambda queue: queue.get_result(1),
    "is_paused": lambda queue: queue.is_paused(),
    "peek": lambda queue: queue.peek(),
    "exists": lambda queue: queue.exists(),
    "query": lambda queue: queue.db.query("SELECT count(*) FROM _honker_live"),
    "construct": lambda queue: queue.db.queue("another"),
}


@pytest.mark.guarantee("G8")
@pytest.mark.parametrize("read", READS)
def test_reading_never_waits_for_the_write_lock(path: Path, read: str) -> None:
    with brant.open(path, busy_timeout_ms=0) as db:
        queue = db.queue("q")
        queue.enqueue(1)
        with write_lock_held(path):
            READS[read](queue)
            with pytest.raises(brant.errors.DatabaseBusy):
                queue.enqueue(2)


@pytest.mark.guarantee("G8")
def test_reading_works_inside_a_transaction_and_sees_what_is_committed(db: brant.Database) -> None:
    queue = db.queue("q")
    with db.transaction() as tx:
        queue.enqueue(1, tx=tx)
        assert queue.stats().pending == 0
    assert queue.stats().pending == 1
