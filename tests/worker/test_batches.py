"""Batches of tasks: run by workers, and inline."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import brant
from brant.batch import BatchCounts
from brant.outcomes import Cancel, Dead, Retry, Snooze
from brant.testing import FakeClock, assert_enqueued, drain_tasks, pending_payloads, run_inline
from brant.worker import current_task
from tests.waiting import PATIENCE_S
from tests.worker.observing import running

pytestmark = pytest.mark.both_backends

Told = list[dict[str, Any]]


def numbers(batch: brant.batch.Batch, total: int, succeeded: int, dead: int = 0) -> dict[str, Any]:
    return {
        "id": batch.id,
        "note": batch.note,
        "total": total,
        "succeeded": succeeded,
        "dead": dead,
        "cancelled": 0,
    }


def reporting(db: brant.Database) -> tuple[brant.tasks.Task[..., None], Told]:
    told: Told = []

    @db.task("reports", name="report")
    def report(batch: dict[str, Any]) -> None:
        told.append(batch)

    return report, told


def test_a_worker_runs_the_members_and_then_the_callback(db: brant.Database) -> None:
    report, told = reporting(db)

    @db.task("q", retries=1)
    def send(user: int) -> int:
        if user == 3:
            raise ConnectionError("no route")
        return user

    with db.batch(then=report, note={"month": "2026-01"}) as batch:
        results = [send.enqueue(user, batch=batch) for user in range(5)]
    with running(db), running(db, "reports") as reports:
        assert batch.wait(PATIENCE_S) == BatchCounts(5, 4, 1, 0, 0)
        reports.wait("success")
    assert told == [numbers(batch, 5, 4, dead=1)]
    assert results[4].get(PATIENCE_S) == 4


def test_run_workers_until_drained(db: brant.Database) -> None:
    report, told = reporting(db)

    @db.task("reports")
    async def send(user: int) -> None: ...

    with db.batch(then=report) as batch:
        for user in range(10):
            send.enqueue(user, batch=batch, priority=1)
    asyncio.run(db.run_workers("reports", drain=True))
    assert told == [numbers(batch, 10, 10)]


def test_a_member_may_add_members_while_it_runs(db: brant.Database) -> None:
    report, told = reporting(db)

    @db.task("q", name="split")
    def split(depth: int) -> None:
        batch = current_task().batch
        assert batch is not None
        if depth:
            for _ in range(2):
                split.enqueue(depth - 1, batch=batch)

    with db.batch(then=report) as batch:
        split.enqueue(3, batch=batch)
    drain_tasks(db)
    assert told == [numbers(batch, 15, 15)]


def test_members_added_with_the_ack_come_before_the_callback(db: brant.Database) -> None:
    report, told = reporting(db)

    @db.task("q", name="add")
    def add(more: int) -> None:
        task = current_task()
        with task.transaction() as tx:
            if more:
                add.enqueue(more - 1, batch=task.batch, tx=tx)

    with db.batch(then=report) as batch:
        add.enqueue(2, batch=batch)
    drain_tasks(db)
    assert told == [numbers(batch, 3, 3)]


def test_a_task_outside_a_batch_has_none(db: brant.Database) -> None:
    seen = []

    @db.task("q")
    def look() -> None:
        seen.append(current_task().batch)

    look()
    drain_tasks(db)
    assert seen == [None]


def test_outcomes_are_counted_as_what_becomes_of_the_job(db: brant.Database) -> None:
    endings = [None, Cancel("not needed"), Dead("bad"), Snooze(60), Retry(60)]

    @db.task("q")
    def end(number: int) -> object:
        return endings[number]

    with db.batch() as batch:
        for number in range(len(endings)):
            end.enqueue(number, batch=batch)
    drain_tasks(db)
    assert batch.counts() == BatchCounts(5, succeeded=2, dead=1, cancelled=0, pending=2)


def test_the_callback_has_the_options_of_its_task(db: brant.Database) -> None:
    @db.task("reports", retries=5, priority=3, expires_s=60)
    def report(*, batch: dict[str, Any]) -> None: ...

    with db.batch(then=report):
        pass
    job = db.queue("reports").claim_one("w")
    assert job is not None
    assert (job.max_attempts, job.priority, job.expires_at) == (5, 3, job.run_at + 60)


@pytest.mark.guarantee("G19")
def test_a_callback_that_does_not_take_the_numbers_is_refused(db: brant.Database) -> None:
    @db.task("reports", name="takes nothing")
    def nothing() -> None: ...

    @db.task("reports", name="takes too much")
    def too_much(batch: dict[str, Any], other: int) -> None: ...

    for task in (nothing, too_much):
        with pytest.raises(brant.InvalidValue, match="keyword `batch` alone"):
            db.batch(then=task)


def test_a_callback_can_be_called_by_hand_and_be_a_member_itself(db: brant.Database) -> None:
    report, _ = reporting(db)
    report(batch={"id": 1})
    assert_enqueued(report, kwargs={"batch": {"id": 1}})
    with db.batch() as outer:
        report.enqueue({"id": 2}, batch=outer)
    assert outer.counts().total == 1


# Inline


def test_inline_the_members_run_at_once_and_the_callback_at_the_end(db: brant.Database) -> None:
    report, told = reporting(db)
    ran = []

    @db.task("q")
    def send(user: int) -> None:
        with db.transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS mails (recipient TEXT)")
        ran.append(user)

    with run_inline(), db.batch(then=report, note="n") as batch:
        send.enqueue(1, batch=batch)
        send.enqueue(2, batch=batch)
        assert (ran, told) == ([1, 2], [])
        assert not batch.is_settled
    assert told == [numbers(batch, 2, 2)]
    assert batch.counts() == batch.wait(0) == BatchCounts(2, 2, 0, 0, 0)
    assert pending_payloads(db.queue("q")) == []


def test_inline_failures_are_counted(db: brant.Database) -> None:
    report, told = reporting(db)

    @db.task("q")
    def fail() -> None:
        raise KeyError

    with run_inline(raises=False), db.batch(then=report) as batch:
        fail.enqueue(batch=batch)
    assert told == [numbers(batch, 1, 0, dead=1)]
    with run_inline(), pytest.raises(KeyError), db.batch(then=report) as batch:
        fail.enqueue(batch=batch)
    assert len(told) == 1


def test_inline_a_member_finds_its_batch(db: brant.Database) -> None:
    @db.task("q", name="split")
    def split(depth: int) -> None:
        if depth:
            split.enqueue(depth - 1, batch=current_task().batch)

    with run_inline(), db.batch(then=("done", {"a": 1})) as batch:
        split.enqueue(2, batch=batch)
    (callback,) = pending_payloads(db.queue("done"))
    assert callback == {"a": 1, "batch": numbers(batch, 3, 3)}


def test_inline_a_batch_is_for_tasks_and_made_inside(db: brant.Database) -> None:
    @db.task("q")
    def send() -> None: ...

    outside = db.batch()
    with run_inline():
        with pytest.raises(brant.InvalidValue, match="made outside"):
            send.enqueue(batch=outside)
        with pytest.raises(brant.InvalidValue, match="tasks only"):
            db.queue("q").enqueue(1, batch=db.batch())
        with db.batch() as settled:
            pass
        with pytest.raises(brant.InvalidValue, match="is settled"):
            send.enqueue(batch=settled)
    assert pending_payloads(db.queue("q")) == []


def test_a_member_that_expires_while_all_slots_are_busy_settles_its_batch(
    timed: brant.Database, clock: FakeClock
) -> None:
    q, begun, go = timed.queue("q"), threading.Event(), threading.Event()

    @q.task("long")
    def takes_its_time() -> None:
        begun.set()
        go.wait(PATIENCE_S)

    takes_its_time()
    with running(timed, slots=1, grace_s=PATIENCE_S):
        assert begun.wait(PATIENCE_S)
        with timed.batch() as batch:
            member = q.task("late", expires_s=3)(lambda: None).enqueue(batch=batch)
        clock.advance(6)
        assert batch.wait(PATIENCE_S) == BatchCounts(1, 0, 1, 0, 0)
        with pytest.raises(brant.TaskFailed, match="expired"):
            member.get(PATIENCE_S)
        assert not go.is_set()
        go.set()
