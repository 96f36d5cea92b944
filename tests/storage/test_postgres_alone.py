"""Verbs that are one statement on a server, where nothing else is to be done with them; and all else when there is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.limit import Limit
from brant.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def db(address: str, clock: FakeClock) -> Iterator[brant.Database]:
    with brant.open(address, clock=clock) as database:
        yield database


def round_trips(db: brant.Database, call: Callable[[], object]) -> int:
    """How often the server was waited for: it says each time that it is ready for the next query."""
    with db.transaction():
        session: Any = db._storage.current()  # type: ignore[attr-defined]
        connection = session.connection.pgconn
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "trace").open("w+b") as trace:
        connection.trace(trace.fileno())
        call()
        connection.untrace()
        trace.seek(0)
        return trace.read().count(b"\tReadyForQuery\t")


def test_the_usual_verbs_wait_for_the_server_once_each(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(0)  # makes the queue known
    assert round_trips(db, lambda: queue.enqueue(1)) == 1
    assert round_trips(db, lambda: queue.enqueue_many(range(20))) == 1
    # One that took long, on a busy machine, asks why; not each of several in a row.
    assert min(round_trips(db, lambda: queue.claim_batch("w", 3)) for _ in range(3)) == 1
    held = db.query("SELECT id FROM brant.jobs WHERE state = 'processing' ORDER BY id")
    first, *others = [row["id"] for row in held]
    assert round_trips(db, lambda: queue.ack(first, "w")) == 1
    assert round_trips(db, lambda: queue.ack_batch(others, "w")) == 1
    assert (queue.stats().pending, queue.stats().processing) == (22 - len(held), 0)


def test_the_first_job_makes_its_queue_known(db: brant.Database) -> None:
    db.queue("one").enqueue(1)
    db.queue("many").enqueue_many([1, 2])
    names = db.query("SELECT name FROM brant._brant_queues ORDER BY name")
    assert [row["name"] for row in names] == ["many", "one"]


def test_what_becomes_of_the_jobs_of_a_recorded_queue_is_told(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.record_events()
    queue.enqueue(1)
    queue.enqueue_many([2])
    first, second = queue.claim_batch("w", 2)
    first.ack()
    queue.ack_batch([second.id], "w")
    told = db.query('SELECT payload FROM brant._honker_stream ORDER BY "offset"')
    events = [row["payload"].split('"')[3] for row in told]
    assert events == ["enqueued", "enqueued", "claimed", "claimed", "completed", "completed"]


@pytest.mark.parametrize("together", [False, True])
def test_a_batch_is_settled_by_the_ack_of_its_last_job(db: brant.Database, together: bool) -> None:
    queue = db.queue("q")
    with db.batch() as batch:
        queue.enqueue_many([1, 2], batch=batch)
    jobs = queue.claim_batch("w", 2)
    if together:
        queue.ack_batch([job.id for job in jobs], "w")
    else:
        for job in jobs:
            job.ack()
    settled = db.query("SELECT settled, succeeded FROM brant._brant_batches")
    assert settled == [{"settled": 1, "succeeded": 2}]


def test_a_paused_queue_hands_out_nothing(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    queue.pause()
    assert queue.claim_one("w") is None


def test_a_claim_first_frees_what_a_dead_worker_held(db: brant.Database, clock: FakeClock) -> None:
    queue = db.queue("q")
    abandoned = queue.enqueue(1)
    queue.claim_one("dead", lease_s=10)
    clock.advance(60)
    queue.enqueue(2)
    job = queue.claim_one("w")
    assert job is not None
    assert (job.id, job.attempts) == (abandoned, 2)
    assert queue.errors(abandoned)[0].error.startswith("the lease ran out")


def test_a_job_that_has_waited_too_long_comes_before_those_of_higher_priority(
    db: brant.Database, clock: FakeClock
) -> None:
    queue = db.queue("q", max_wait_s=60)
    old = queue.enqueue("old")
    clock.advance(61)
    queue.enqueue_many(["new"] * 10, priority=9)
    assert old in {job.id for job in queue.claim_batch("w", 4)}


def test_a_claim_keeps_to_the_limits_of_the_queue(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many([1, 2, 3])
    queue.set_limit(Limit(max_running=1))
    assert len(queue.claim_batch("w", 3)) == 1
    assert queue.claim_one("w") is None


def test_an_ack_after_the_lease_says_that_the_claim_is_lost(db: brant.Database, clock: FakeClock) -> None:
    queue = db.queue("q")
    queue.enqueue_many([1, 2])
    first, second = queue.claim_batch("w", 2, lease_s=10)
    clock.advance(60)
    assert first.ack() is False
    assert queue.ack_batch([second.id], "w") == 0
