"""Batches: filling, sealing, counting, waiting, forgetting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.batch import Batch, BatchCounts
from brant.errors import TransactionError
from brant.testing import FakeClock, pending_payloads
from tests.plainly import plain_connection
from tests.waiting import PATIENCE_S, in_thread, line_of, python

pytestmark = pytest.mark.both_backends

WEEK_S = 7 * 86_400


@pytest.fixture
def queue(db: brant.Database) -> brant.Queue:
    return db.queue("q")


def work_off(queue: brant.Queue) -> None:
    for job in queue.claim_batch("w", 100):
        assert job.ack()


def callbacks(db: brant.Database) -> list[Any]:
    return pending_payloads(db.queue("done"))


# Filling


def test_the_callback_comes_when_all_members_are_done(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch(then=("done", {"hello": 1}), note={"month": "2026-01"}) as batch:
        queue.enqueue("one", batch=batch)
        queue.enqueue_many(["two", "three"], batch=batch)
    first, *others = queue.claim_batch("w", 3)
    first.ack()
    assert batch.counts() == BatchCounts(total=3, succeeded=1, dead=0, cancelled=0, pending=2)
    assert callbacks(db) == []
    for job in others:
        job.ack()
    numbers = {"id": batch.id, "note": {"month": "2026-01"}, "total": 3, "succeeded": 3, "dead": 0, "cancelled": 0}
    assert callbacks(db) == [{"hello": 1, "batch": numbers}]
    assert batch.is_settled


def test_many_jobs_acked_at_once_settle_their_batch(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch(then=("done", None)) as batch:
        queue.enqueue_many(range(5), batch=batch)
    queue.ack_batch([job.id for job in queue.claim_batch("w", 5)], "w")
    assert batch.counts().succeeded == 5
    assert len(callbacks(db)) == 1


def test_an_exception_in_the_block_leaves_nothing(db: brant.Database, queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), db.batch(then=("done", None)) as batch:
        queue.enqueue(1, batch=batch)
        raise ZeroDivisionError
    assert pending_payloads(queue) == []
    assert db.get_batch(batch.id) is None
    with pytest.raises(brant.InvalidValue, match="there is no batch"):
        queue.enqueue(1, batch=batch)
    assert pending_payloads(queue) == []


def test_a_batch_commits_with_the_callers_transaction(db: brant.Database, queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        with db.batch(tx=tx) as lost:
            queue.enqueue("lost", batch=lost)
        raise ZeroDivisionError
    with db.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER)")
        with db.batch(tx=tx) as kept:
            queue.enqueue("kept", batch=kept)
    assert pending_payloads(queue) == ["kept"]
    assert db.get_batch(lost.id) is None
    assert kept.counts().pending == 1


def test_a_batch_that_fails_leaves_the_callers_transaction_usable(db: brant.Database, queue: brant.Queue) -> None:
    with db.transaction() as tx:
        try:
            with db.batch(tx=tx) as batch:
                queue.enqueue("lost", batch=batch)
                raise ZeroDivisionError
        except ZeroDivisionError:
            queue.enqueue("kept", tx=tx)
    assert pending_payloads(queue) == ["kept"]
    assert db.batches() == []


def test_a_batch_commits_with_a_plain_connection(path: Path, db: brant.Database, queue: brant.Queue) -> None:
    with plain_connection(path) as connection:
        with db.batch(tx=connection.tx) as batch:
            queue.enqueue(1, batch=batch)
        assert db.get_batch(batch.id) is None
        connection.commit()
    assert batch.counts().pending == 1


def test_nothing_follows_before_the_seal(db: brant.Database, queue: brant.Queue) -> None:
    batch = db.batch(then=("done", None))
    queue.enqueue(1, batch=batch)
    work_off(queue)
    assert not batch.is_settled
    queue.enqueue(2, batch=batch)
    work_off(queue)
    assert callbacks(db) == []
    batch.seal()
    assert [found["batch"]["succeeded"] for found in callbacks(db)] == [2]
    batch.seal()
    assert len(callbacks(db)) == 1


def test_a_rolled_back_first_job_does_not_spoil_the_batch(db: brant.Database, queue: brant.Queue) -> None:
    batch = db.batch(then=("done", None))
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        queue.enqueue("lost", batch=batch, tx=tx)
        raise ZeroDivisionError
    queue.enqueue("kept", batch=batch)
    batch.seal()
    assert batch.counts() == BatchCounts(1, 0, 0, 0, 1)


def test_a_seal_can_be_rolled_back(db: brant.Database) -> None:
    batch = db.batch(then=("done", None))
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        batch.seal(tx=tx)
        raise ZeroDivisionError
    assert callbacks(db) == []
    batch.seal()
    assert len(callbacks(db)) == 1


def test_an_empty_batch_is_settled_by_its_seal(db: brant.Database) -> None:
    with db.batch(then=("done", None)) as batch:
        pass
    assert batch.is_settled
    assert [found["batch"]["total"] for found in callbacks(db)] == [0]


def test_without_then_it_only_counts(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch() as batch:
        queue.enqueue(1, batch=batch)
    work_off(queue)
    assert batch.status().is_settled
    assert batch.status().then_job_id is None
    assert db.query("SELECT count(*) AS n FROM _honker_live") == [{"n": 0}]


def test_ten_thousand_members(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch(then=("done", None)) as batch:
        queue.enqueue_many(range(10_000), batch=batch)
    while jobs := queue.claim_batch("w", 999):
        queue.ack_batch([job.id for job in jobs], "w")
    assert batch.counts() == BatchCounts(10_000, 10_000, 0, 0, 0)
    assert len(callbacks(db)) == 1


def test_a_held_unique_key_does_not_count_a_job_twice(db: brant.Database, queue: brant.Queue) -> None:
    outside = queue.enqueue(0, unique_key="outside")
    with db.batch(then=("done", None)) as batch:
        first = queue.enqueue(1, unique_key="k", batch=batch)
        assert queue.enqueue(1, unique_key="k", batch=batch) == first
        assert queue.enqueue(0, unique_key="outside", batch=batch) == outside
    assert batch.counts().total == 2
    with pytest.raises(brant.InvalidValue, match=f"in batch {batch.id} already"), db.batch() as other:
        queue.enqueue(1, unique_key="k", batch=other)
    work_off(queue)
    assert len(callbacks(db)) == 1


# What is refused


def test_a_settled_batch_takes_nothing_more(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch() as batch:
        pass
    with pytest.raises(brant.InvalidValue, match="is settled"):
        queue.enqueue(1, batch=batch)
    with pytest.raises(brant.InvalidValue, match="is settled"):
        queue.enqueue_many([1, 2], batch=batch.id)
    assert pending_payloads(queue) == []


def test_an_unknown_batch_is_refused(db: brant.Database, queue: brant.Queue) -> None:
    assert db.get_batch(7) is None
    with pytest.raises(brant.InvalidValue, match="there is no batch 7"):
        queue.enqueue(1, batch=7)
    with pytest.raises(brant.InvalidValue, match="there is no batch 7"):
        Batch(db, 7).wait(0)
    with pytest.raises(brant.InvalidValue, match="there is no batch 7"):
        Batch(db, 7).seal()
    with pytest.raises(brant.InvalidValue, match="batch must be a whole number"):
        queue.enqueue(1, batch="seven")  # type: ignore[arg-type]
    assert pending_payloads(queue) == []


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"then": "report"}, "must be a task or"),
        ({"then": ("done", [1])}, "must be a dict"),
        ({"then": ("done", {"batch": 1})}, "without 'batch'"),
        ({"then": ("", None)}, "queue name"),
        ({"keep_s": -1}, "keep_s"),
    ],
)
@pytest.mark.guarantee("G19")
def test_bad_arguments_are_refused_at_once(db: brant.Database, options: dict[str, Any], why: str) -> None:
    with pytest.raises(brant.InvalidValue, match=why):
        db.batch(**options)


@pytest.mark.parametrize("depth", [500, 900, 990, 1990, 2500])
def test_a_note_that_is_stored_never_blocks_the_last_job(db: brant.Database, queue: brant.Queue, depth: int) -> None:
    try:
        with db.batch(then=("done", None), note=nested(depth)) as batch:
            queue.enqueue(1, batch=batch)
    except (brant.InvalidValue, TypeError):
        assert pending_payloads(queue) == []
        return
    work_off(queue)
    assert batch.is_settled
    assert len(callbacks(db)) == 1


def test_a_batch_of_another_database_is_refused(db: brant.Database, tmp_path: Path) -> None:
    with brant.open(tmp_path / "other.db") as other:
        batch = db.batch()
        with pytest.raises(brant.InvalidValue, match="another Database"):
            other.queue("q").enqueue(1, batch=batch)
        with pytest.raises(brant.InvalidValue, match="another Database"):
            db.batch(then=(other.queue("q"), None))


def test_a_batch_is_entered_once(db: brant.Database) -> None:
    with db.batch() as batch:
        pass
    with pytest.raises(brant.InvalidValue, match="new batch"):
        batch.__enter__()


# Waiting and looking


def test_waiting_ends_with_the_last_job_of_another_process(path: Path, db: brant.Database, queue: brant.Queue) -> None:
    with db.batch() as batch:
        queue.enqueue(1, batch=batch)
    waiter = in_thread(batch.wait, PATIENCE_S)
    program = "import sys, brant; print(brant.open(sys.argv[1]).queue('q').claim_one('w').ack())"
    with python(program, path) as process:
        assert line_of(process) == "True"
    assert waiter.result(PATIENCE_S) == BatchCounts(1, 1, 0, 0, 0)


def test_waiting_in_an_event_loop(db: brant.Database, queue: brant.Queue) -> None:
    with db.batch() as batch:
        queue.enqueue(1, batch=batch)

    async def test() -> BatchCounts:
        waiting = asyncio.create_task(batch.wait_async(PATIENCE_S))
        await asyncio.to_thread(work_off, queue)
        return await waiting

    assert asyncio.run(test()).succeeded == 1


def test_waiting_has_an_end(db: brant.Database) -> None:
    batch = db.batch()
    db.queue("q").enqueue(1, batch=batch)
    with pytest.raises(TimeoutError, match=f"batch {batch.id} was not settled"):
        batch.wait(0)
    with db.batch() as inner, pytest.raises(TransactionError, match="inside a transaction"):
        inner.wait(1)


def test_another_process_finds_the_batch_by_its_id(path: Path, db: brant.Database, queue: brant.Queue) -> None:
    batch = db.batch(note=["n"])
    job_id = queue.enqueue(1, batch=batch)
    with brant.open(path) as other:
        found = other.get_batch(batch.id)
        assert found is not None
        other.queue("q").enqueue(2, batch=found)
        other.queue("q").enqueue(3, batch=batch.id)
        found.seal()
        of_job = other.batch_of_job(job_id)
        assert of_job is not None
        assert (of_job.id, found.note, found.is_sealed) == (batch.id, ["n"], True)
        assert other.batch_of_job(job_id + 10**9) is None
    assert batch.counts() == BatchCounts(3, 0, 0, 0, 3)


def test_the_latest_batches_are_listed_first(timed: brant.Database, clock: FakeClock) -> None:
    for number in range(3):
        with timed.batch(note=number):
            clock.advance(1)
    assert [status.note for status in timed.batches()] == [2, 1, 0]
    assert [status.note for status in timed.batches(limit=1)] == [2]


# Time


def test_the_callback_is_due_when_the_batch_is_settled(timed: brant.Database, clock: FakeClock) -> None:
    queue, done = timed.queue("q"), timed.queue("done", max_attempts=7)
    with timed.batch(then=(done, None)) as batch:
        queue.enqueue(1, batch=batch)
    clock.advance(100)
    work_off(queue)
    status = batch.status()
    assert status.settled_at == clock.now()
    assert status.then_job_id == clock.now() * 1_000_000
    callback = done.claim_one("w")
    assert callback is not None
    assert (callback.id, callback.run_at, callback.max_attempts) == (status.then_job_id, clock.now(), 7)
    assert timed.queue("other").enqueue("next") > callback.id


def test_settled_batches_are_kept_for_a_week_and_others_for_good(timed: brant.Database, clock: FakeClock) -> None:
    with timed.batch() as usual:
        pass
    with timed.batch(keep_s=10) as short:
        pass
    unsettled = timed.batch()
    member = timed.queue("q").enqueue(1, batch=unsettled)
    clock.advance(9)
    assert timed.vacuum() == 0
    clock.advance(1)
    assert timed.vacuum() == 1
    assert timed.get_batch(short.id) is None
    clock.advance(WEEK_S)
    assert timed.vacuum() == 1
    assert timed.get_batch(usual.id) is None
    assert unsettled.counts().pending == 1
    assert timed.batch_of_job(member) is not None


def test_a_forgotten_batch_leaves_no_rows(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    with timed.batch() as batch:
        queue.enqueue_many([1, 2], batch=batch)
    work_off(queue)
    clock.advance(WEEK_S)
    timed.vacuum()
    assert timed.query("SELECT count(*) AS n FROM _brant_batch_jobs") == [{"n": 0}]


# Files


def test_a_loaded_batch_goes_on(db: brant.Database, queue: brant.Queue, tmp_path: Path) -> None:
    with db.batch(then=("done", {"a": 1}), note="é") as batch:
        queue.enqueue_many([1, 2], batch=batch)
    first = queue.claim_one("w")
    assert first is not None
    first.ack()
    with brant.open(tmp_path / "copy.db") as copy:
        copy.load(db.dump())
        work_off(copy.queue("q"))
        (callback,) = callbacks(copy)
        assert callback["batch"]["succeeded"] == 2
        assert callback["batch"]["note"] == "é"
    assert not batch.is_settled


@pytest.mark.files_only("no server has tables of an earlier version")
def test_a_file_from_before_batches_gets_them(path: Path) -> None:
    with brant.open(path) as old, old.transaction() as tx:
        for name in old.query("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE '%batch%'"):
            tx.execute(f"DROP TRIGGER {name['name']}")
        tx.execute("DROP TABLE _brant_batches")
        tx.execute("DROP TABLE _brant_batch_jobs")
        tx.execute("UPDATE _brant_meta SET value = '1' WHERE key = 'schema_version'")
    with brant.open(path) as db:
        queue = db.queue("q")
        with db.batch(then=("done", None)) as batch:
            queue.enqueue(1, batch=batch)
        work_off(queue)
        assert batch.is_settled
