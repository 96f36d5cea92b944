"""Batches: members, counts, the job that follows."""

from __future__ import annotations

import json

import pytest

from brant.errors import InvalidValue
from brant.storage.base import Storage
from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000
THEN = {
    "then_queue": "done",
    "then_payload": '{"a": 1}',
    "then_path": "$.batch",
    "then_priority": 5,
    "then_max_attempts": 2,
    "then_expires_s": 60,
}


def member_of(session: Session, batch: int) -> int:
    job_id: int = session.enqueue("q", "1")
    assert session.join_batch(batch, [job_id]) == 1
    return job_id


def test_a_new_batch_counts_nothing(session: Session) -> None:
    session.create_batch(1, '"note"', 60)
    batch = session.get_batch(1)
    assert batch is not None
    assert batch._asdict() == {
        "id": 1,
        "note": '"note"',
        "total": 0,
        "succeeded": 0,
        "dead": 0,
        "cancelled": 0,
        "sealed": 0,
        "settled": 0,
        "created_at": NOW,
        "settled_at": None,
        "then_job_id": None,
    }
    assert session.get_batch(2) is None


def test_creating_it_again_changes_nothing(session: Session) -> None:
    session.create_batch(1, "1", 60)
    member_of(session, 1)
    session.create_batch(1, "2", 60, THEN)
    batch = session.get_batch(1)
    assert batch is not None
    assert (batch.note, batch.total) == ("1", 1)


def test_the_job_that_follows_is_as_it_was_ordered(session: Session, clock: FakeClock) -> None:
    session.create_batch(1, "[2]", 60, THEN)
    job_id = member_of(session, 1)
    session.seal_batch(1)
    clock.advance(7)
    assert session.cancel(job_id)
    batch = session.get_batch(1)
    assert batch is not None
    assert batch.then_job_id is not None
    assert batch.settled_at == NOW + 7
    job = session.get_job(batch.then_job_id)
    assert job is not None
    assert (job.queue, job.priority, job.max_attempts) == ("done", 5, 2)
    assert (job.run_at, job.created_at, job.expires_at) == (NOW + 7, NOW + 7, NOW + 67)
    numbers = {"id": 1, "note": [2], "total": 1, "succeeded": 0, "dead": 0, "cancelled": 1}
    assert json.loads(job.payload) == {"a": 1, "batch": numbers}
    assert session.last_job_id() == job.id == (NOW + 7) * 1_000_000
    assert "done" in session.queue_names()


def test_a_batch_that_is_dated_already_keeps_its_time(session: Session, clock: FakeClock) -> None:
    session.create_batch(1, "null", 60)
    session.seal_batch(1)
    clock.advance(5)
    session.date_settled([1, 2])
    batch = session.get_batch(1)
    assert batch is not None
    assert batch.settled_at == NOW


def test_a_member_is_found_while_its_batch_is_kept(session: Session, clock: FakeClock) -> None:
    session.create_batch(1, "null", 60)
    job_id = member_of(session, 1)
    session.seal_batch(1)
    assert session.batch_of_job(job_id) == 1
    session.cancel(job_id)
    assert session.batch_of_job(job_id) == 1
    clock.advance(60)
    assert session.sweep_batches() == 1
    assert session.batch_of_job(job_id) is None
    assert session.get_batch(1) is None


def test_a_batch_that_is_not_settled_is_never_swept(session: Session, clock: FakeClock) -> None:
    session.create_batch(1, "null", 0)
    clock.advance(10**9)
    assert session.sweep_batches() == 0


def test_the_latest_are_listed_first(session: Session, clock: FakeClock) -> None:
    for batch in (3, 1, 2):
        session.create_batch(batch, "null", 60)
        clock.advance(1)
    assert [row.id for row in session.list_batches(2)] == [2, 1]


def test_a_job_joins_one_batch_only(session: Session) -> None:
    session.create_batch(1, "null", 60)
    session.create_batch(2, "null", 60)
    job_id = member_of(session, 1)
    assert session.join_batch(1, [job_id]) == 0
    with pytest.raises(InvalidValue, match="in batch 1 already"):
        session.join_batch(2, [job_id])


def test_a_job_that_is_gone_does_not_join(session: Session) -> None:
    session.create_batch(1, "null", 60)
    assert session.join_batch(1, [12345]) == 0


def test_unknown_and_settled_batches_take_nothing(session: Session) -> None:
    session.create_batch(1, "null", 60)
    session.seal_batch(1)
    for batch in (1, 2):
        with pytest.raises(InvalidValue, match=f"batch {batch}"):
            session.join_batch(batch, [session.enqueue("q", "1")])
    with pytest.raises(InvalidValue, match="no batch 2"):
        session.seal_batch(2)


def test_a_rolled_back_settlement_leaves_no_trace(storage: Storage, session: Session) -> None:
    session.create_batch(1, "null", 60, THEN)
    job_id = member_of(session, 1)
    session.seal_batch(1)
    with pytest.raises(ZeroDivisionError), storage.transaction() as inner:
        inner.cancel(job_id)
        raise ZeroDivisionError
    batch = session.get_batch(1)
    assert batch is not None
    assert (batch.settled, batch.cancelled, batch.then_job_id) == (0, 0, None)
