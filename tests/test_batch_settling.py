"""Whoever settles the jobs of a batch, they are counted, and the callback comes once."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.batch import Batch, BatchCounts
from brant.testing import FakeClock, pending_payloads
from tests.plainly import Plain, plain_connection
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_backends


@pytest.fixture
def queue(db: brant.Database) -> brant.Queue:
    return db.queue("q", max_attempts=1)


@pytest.fixture
def pair(db: brant.Database, queue: brant.Queue) -> Batch:
    """A batch of two jobs."""
    with db.batch(then=("done", None)) as batch:
        queue.enqueue_many(["first", "second"], batch=batch)
    return batch


@pytest.fixture
def plain(path: Path) -> Iterator[Plain]:
    """A connection that knows nothing of Brant."""
    with plain_connection(path, autocommit=True) as connection:
        yield connection


def callbacks(db: brant.Database) -> list[dict[str, Any]]:
    return [payload["batch"] for payload in pending_payloads(db.queue("done"))]


def ended(batch: Batch) -> tuple[int, int, int]:
    counts = batch.counts()
    assert sum(counts[1:]) == counts.total
    return counts.succeeded, counts.dead, counts.cancelled


# Each way to end


def ack(queue: brant.Queue) -> None:
    for job in queue.claim_batch("w", 2):
        assert job.ack()


def ack_with_effects(queue: brant.Queue) -> None:
    for job in queue.claim_batch("w", 2):
        with job.transaction():
            pass


def read(queue: brant.Queue) -> None:
    assert queue.read() == "first"
    assert queue.read_many(5) == ["second"]


def read_by_id(queue: brant.Queue) -> None:
    for message in queue.peek_many():
        assert queue.read(message_id=message.id) is not None


def ack_by_function(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        ids = [job.id for job in queue.claim_batch("w", 2, tx=tx)]
        tx.query("SELECT honker_ack(?, 'w')", ids[:1])
        tx.query("SELECT honker_ack_batch(?, 'w')", [str(ids[1:])])


def move_and_ack(queue: brant.Queue) -> None:
    queue.move_many("elsewhere", 2)
    ack(queue.db.queue("elsewhere"))


def fail(queue: brant.Queue) -> None:
    for job in queue.claim_batch("w", 2):
        assert job.fail("no")


def use_up_attempts(queue: brant.Queue) -> None:
    for job in queue.claim_batch("w", 2):
        assert job.retry(0, "again")


def fail_by_function(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        for job in queue.claim_batch("w", 2, tx=tx):
            tx.query("SELECT honker_fail(?, 'w', 'no')", [job.id])


def cancel(queue: brant.Queue) -> None:
    for message in queue.peek_many():
        assert queue.cancel(message.id)


def cancel_running(queue: brant.Queue) -> None:
    for job in queue.claim_batch("w", 2):
        assert queue.cancel(job.id)


def cancel_by_function(queue: brant.Queue) -> None:
    jobs = queue.claim_batch("w", 2)
    with queue.db.transaction() as tx:
        for job in jobs:
            tx.query("SELECT honker_cancel(?)", [job.id])


def delete_messages(queue: brant.Queue) -> None:
    for message in queue.peek_many():
        assert queue.delete(message_id=message.id)


def delete_queue(queue: brant.Queue) -> None:
    queue.claim_one("w")
    assert queue.delete()


@pytest.mark.parametrize("settle", [ack, ack_with_effects, read, read_by_id, ack_by_function, move_and_ack])
@pytest.mark.guarantee("G22")
def test_done_counts_as_succeeded(db: brant.Database, pair: Batch, settle: Callable[[brant.Queue], None]) -> None:
    settle(db.queue("q"))
    assert ended(pair) == (2, 0, 0)
    assert [numbers["succeeded"] for numbers in callbacks(db)] == [2]
    assert pair.status().settled_at is not None


@pytest.mark.parametrize("settle", [fail, use_up_attempts, fail_by_function])
@pytest.mark.guarantee("G22")
def test_a_dead_letter_counts_as_dead(db: brant.Database, pair: Batch, settle: Callable[[brant.Queue], None]) -> None:
    settle(db.queue("q"))
    assert ended(pair) == (0, 2, 0)
    assert [numbers["dead"] for numbers in callbacks(db)] == [2]


@pytest.mark.parametrize(
    "settle", [cancel, cancel_running, cancel_by_function, delete_messages, delete_queue], ids=lambda way: way.__name__
)
@pytest.mark.guarantee("G22")
def test_removed_counts_as_cancelled(db: brant.Database, pair: Batch, settle: Callable[[brant.Queue], None]) -> None:
    settle(db.queue("q"))
    assert ended(pair) == (0, 0, 2)
    assert [numbers["cancelled"] for numbers in callbacks(db)] == [2]


@pytest.mark.guarantee("G22")
def test_plain_sql_settles_too(db: brant.Database, pair: Batch, plain: Plain) -> None:
    first, second = (job.id for job in db.queue("q").claim_batch("w", 2))
    plain.execute("DELETE FROM _honker_live WHERE id = ?", [first])
    plain.execute("BEGIN")
    plain.execute("INSERT INTO _honker_dead (id, queue, payload) VALUES (?, 'q', '1')", [second])
    plain.execute("DELETE FROM _honker_live WHERE id = ?", [second])
    plain.execute("COMMIT")
    assert ended(pair) == (1, 1, 0)
    assert len(callbacks(db)) == 1
    callback = db.queue("done").claim_one("w")
    assert callback is not None
    assert abs(callback.run_at - time.time()) < 60
    assert callback.ack()


def test_a_delete_of_jobs_that_nobody_claimed_cancels_them(db: brant.Database, pair: Batch, plain: Plain) -> None:
    plain.execute("DELETE FROM _honker_live")
    assert ended(pair) == (0, 0, 2)
    assert len(callbacks(db)) == 1


@pytest.mark.files_only("a server knows the time at which it was settled")
def test_a_batch_that_plain_sql_settled_is_kept_from_the_first_sweep_on(
    timed: brant.Database, clock: FakeClock, path: Path
) -> None:
    queue = timed.queue("q")
    with timed.batch(keep_s=10) as batch:
        queue.enqueue(1, batch=batch)
    with plain_connection(path, autocommit=True) as plain:
        plain.execute("DELETE FROM _honker_live")
    assert batch.status().settled_at is None
    timed.vacuum()
    assert batch.status().settled_at == clock.now()
    clock.advance(10)
    timed.vacuum()
    assert timed.get_batch(batch.id) is None


def test_a_settlement_that_is_rolled_back_did_not_happen(db: brant.Database, pair: Batch) -> None:
    queue = db.queue("q")
    jobs = queue.claim_batch("w", 2)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        for job in jobs:
            job.ack(tx=tx)
        raise ZeroDivisionError
    assert pair.counts().pending == 2
    assert callbacks(db) == []


def test_a_job_that_is_put_back_is_still_pending(db: brant.Database) -> None:
    queue = db.queue("patient", max_attempts=3)
    with db.batch(then=("done", None)) as batch:
        queue.enqueue_many([1, 2], batch=batch)
    first, second = queue.claim_batch("w", 2)
    first.retry(0, "later")
    second.release()
    assert batch.counts().pending == 2


def test_lapsed_leases_and_expired_jobs_are_counted_as_dead(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=5, max_attempts=1)
    with timed.batch(then=("done", None)) as batch:
        queue.enqueue("lapses", batch=batch)
        queue.enqueue("expires", batch=batch, delay=3, expires=4)
    assert queue.claim_one("w") is not None
    clock.advance(10)
    queue.sweep_expired()
    assert queue.claim_one("w") is None
    assert ended(batch) == (0, 2, 0)
    assert len(callbacks(timed)) == 1


# Requeued dead letters


def test_a_dead_member_that_is_requeued_in_time_is_pending_again(db: brant.Database, pair: Batch) -> None:
    queue = db.queue("q")
    first, second = queue.claim_batch("w", 2)
    first.fail("no")
    assert queue.requeue_dead(first.id) == 1
    assert pair.counts() == BatchCounts(2, 0, 0, 0, 2)
    second.ack()
    assert callbacks(db) == []
    ack(queue)
    assert ended(pair) == (2, 0, 0)
    assert len(callbacks(db)) == 1


def test_a_dead_member_that_is_requeued_too_late_changes_nothing(db: brant.Database, pair: Batch) -> None:
    queue = db.queue("q")
    fail(queue)
    assert queue.requeue_dead() == 2
    ack(queue)
    assert ended(pair) == (0, 2, 0)
    assert len(callbacks(db)) == 1


def test_purged_dead_letters_stay_counted(db: brant.Database, pair: Batch) -> None:
    queue = db.queue("q")
    first, second = queue.claim_batch("w", 2)
    first.fail("no")
    assert queue.purge_dead() == 1
    second.ack()
    assert ended(pair) == (1, 1, 0)
    assert len(callbacks(db)) == 1


# Around it


def test_the_callback_may_go_to_the_queue_that_is_emptied(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch(then=(queue, None)) as batch:
        queue.enqueue_many([1, 2, 3], batch=batch)
    queue.delete()
    assert [payload["batch"]["cancelled"] for payload in pending_payloads(queue)] == [3]
    assert batch.is_settled


def test_one_commit_may_settle_several_batches(db: brant.Database, queue: brant.Queue) -> None:
    for number in range(3):
        with db.batch(then=("done", None), note=number) as batch:
            queue.enqueue(number, batch=batch)
    queue.ack_batch([job.id for job in queue.claim_batch("w", 3)], "w")
    assert sorted(numbers["note"] for numbers in callbacks(db)) == [0, 1, 2]
    jobs = db.queue("done").claim_batch("w", 9)
    assert {job.id for job in jobs} == {status.then_job_id for status in db.batches()}


def test_the_callback_is_among_the_job_events(db: brant.Database, pair: Batch) -> None:
    db.queue("done").record_events()
    ack(db.queue("q"))
    (event,) = db.job_events().read()
    assert (event.payload["event"], event.payload["job_id"]) == ("enqueued", pair.status().then_job_id)


def test_a_dump_from_before_batches_can_be_loaded(db: brant.Database, tmp_path: Path) -> None:
    db.queue("q").enqueue("old")
    *lines, last = db.dump()
    end = json.loads(last)
    assert end["counts"].pop("batches") == end["counts"].pop("batch_jobs") == 0
    with brant.open(tmp_path / "copy.db") as copy:
        copy.load([*lines, json.dumps(end)])
        assert pending_payloads(copy.queue("q")) == ["old"]


# kill -9

BATCHES, MEMBERS = 30, 20
KILLS = int(os.environ.get("BRANT_KILLS", "30"))


def settle_for_ever(path: Path) -> None:
    queue = brant.open(path).queue("q", visibility_timeout_s=1, max_attempts=10_000)
    chance = random.Random()
    for job in queue.claim():
        match chance.randrange(4):
            case 0:
                job.fail("no")
            case 1:
                queue.cancel(job.id)
            case _:
                job.ack()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.guarantee("G22")
def test_workers_that_are_killed_leave_right_counts_and_one_callback(path: Path) -> None:
    seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
    print(f"again by BRANT_SEED={seed}")
    chance = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["brant.opening"])

    def start() -> BaseProcess:
        process = context.Process(target=settle_for_ever, args=(path,), daemon=True)
        process.start()
        return process

    with brant.open(path) as db:
        queue = db.queue("q", visibility_timeout_s=1, max_attempts=10_000)
        crew = [start() for _ in range(3)]
        batches = []
        try:
            for number in range(max(BATCHES, KILLS)):
                if number < BATCHES:
                    with db.batch(then=("done", None)) as batch:
                        queue.enqueue_many(range(MEMBERS), batch=batch)
                    batches.append(batch)
                place = chance.randrange(len(crew))
                crew[place].join(chance.uniform(0, 0.03))
                crew[place].kill()
                crew[place].join(PATIENCE_S)
                crew[place] = start()
            for batch in batches:
                batch.wait(PATIENCE_S * 2)
        finally:
            for process in crew:
                process.kill()
                process.join(PATIENCE_S)
        told = callbacks(db)
        assert sorted(numbers["id"] for numbers in told) == sorted(batch.id for batch in batches)
        for numbers in told:
            assert numbers["succeeded"] + numbers["dead"] + numbers["cancelled"] == numbers["total"] == MEMBERS
        assert sum(numbers["dead"] for numbers in told) == queue.stats().dead
        assert db.health(thorough=True).ok
