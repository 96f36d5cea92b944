"""Claimed jobs are acknowledged, retried, failed, renewed, given back or cancelled."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from brant.storage.base import DeadRow
from brant.storage.jobs import JOB_EVENTS_TOPIC
from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000
LAPSED = "the lease ran out: the worker died or stalled"


def enqueued_and_claimed(session: Session, *, worker: str = "w", lease: float = 60, max_attempts: int = 3) -> int:
    session.enqueue("q", '"p"', max_attempts=max_attempts)
    ((job, _),) = session.claim("q", worker, 1, lease)
    return job.id


def test_an_acked_job_is_gone(session: Session) -> None:
    job_id = enqueued_and_claimed(session)
    assert session.ack(job_id, "w")
    assert session.get_job(job_id) is None
    assert session.get_dead(job_id) is None
    assert not session.ack(job_id, "w")


def test_ack_many_counts_those_that_the_worker_held(session: Session) -> None:
    mine = [enqueued_and_claimed(session) for _ in range(3)]
    others = enqueued_and_claimed(session, worker="other")
    pending = session.enqueue("q", "1")
    assert session.ack_many([*mine[:2], others, pending, 1], "w") == 2
    assert [session.get_job(job_id) is None for job_id in (*mine, others, pending)] == [True, True, False, False, False]
    assert session.ack_many([], "w") == 0


Settle = Callable[[Session, int, str, int | None], object]
SETTLE: dict[str, Settle] = {
    "ack": lambda session, job_id, worker, attempt: session.ack(job_id, worker, attempt),
    "ack_many": lambda session, job_id, worker, _: session.ack_many([job_id], worker),
    "retry": lambda session, job_id, worker, attempt: session.retry(job_id, worker, 0, "again", attempt),
    "fail": lambda session, job_id, worker, attempt: session.fail(job_id, worker, "broken", attempt),
    "extend": lambda session, job_id, worker, attempt: session.extend(job_id, worker, 60, attempt),
    "release": lambda session, job_id, worker, attempt: session.release([job_id], worker, attempt),
}
FENCED = ["ack", "retry", "fail", "extend", "release"]


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", SETTLE)
def test_another_worker_settles_nothing(session: Session, verb: str) -> None:
    job_id = enqueued_and_claimed(session)
    before = session.get_job(job_id)
    assert not SETTLE[verb](session, job_id, "other", None)
    assert session.get_job(job_id) == before


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", SETTLE)
def test_a_job_that_is_not_claimed_is_not_settled(session: Session, verb: str) -> None:
    job_id = session.enqueue("q", "1")
    before = session.get_job(job_id)
    assert not SETTLE[verb](session, job_id, "w", None)
    assert session.get_job(job_id) == before


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", SETTLE)
@pytest.mark.parametrize(("lease", "last_held"), [(10, 10.75), (2.5, 2.5)])
def test_a_claim_is_settled_until_its_lease_ends_and_never_after(
    session: Session, clock: FakeClock, verb: str, lease: float, last_held: float
) -> None:
    in_time, late = (enqueued_and_claimed(session, lease=lease) for _ in range(2))
    clock.advance(last_held)
    assert SETTLE[verb](session, in_time, "w", None)
    clock.advance(0.25)
    before = session.get_job(late)
    assert not SETTLE[verb](session, late, "w", None)
    assert session.get_job(late) == before


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", FENCED)
def test_a_namesake_of_an_earlier_attempt_settles_nothing(session: Session, clock: FakeClock, verb: str) -> None:
    job_id = enqueued_and_claimed(session, lease=10)
    clock.advance(11)
    session.claim("q", "w", 1, 10)
    assert not SETTLE[verb](session, job_id, "w", 1)
    assert SETTLE[verb](session, job_id, "w", 2)


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", FENCED)
def test_a_claim_that_was_released_settles_nothing_even_if_a_namesake_claimed_again(
    session: Session, verb: str
) -> None:
    job_id = enqueued_and_claimed(session)
    session.release([job_id], "w")
    session.claim("q", "w", 1, 60)
    assert not SETTLE[verb](session, job_id, "w", 1)
    assert SETTLE[verb](session, job_id, "w", 2)


# Retry and fail


@pytest.mark.parametrize(("delay", "run_at"), [(0, NOW), (30, NOW + 30), (0.5, NOW + 0.75)])
def test_a_retried_job_waits_and_keeps_its_attempts(
    session: Session, clock: FakeClock, delay: float, run_at: float
) -> None:
    job_id = enqueued_and_claimed(session)
    clock.advance(0.25)
    assert session.retry(job_id, "w", delay, "not yet")
    job = session.get_job(job_id)
    assert job is not None
    assert (job.state, job.run_at, job.attempts) == ("pending", run_at, 1)
    assert (job.worker_id, job.claim_expires_at) == (None, None)
    clock.advance(delay)
    ((_, last_error),) = session.claim("q", "w", 1, 60)
    assert last_error == "not yet"


@pytest.mark.guarantee("G5")
def test_a_retry_of_the_last_attempt_makes_a_dead_letter_with_its_error(session: Session, clock: FakeClock) -> None:
    job_id = enqueued_and_claimed(session, max_attempts=1)
    clock.advance(5)
    assert session.retry(job_id, "w", 0, "gave up")
    assert session.get_job(job_id) is None
    assert session.get_dead(job_id) == DeadRow(
        id=job_id,
        queue="q",
        payload='"p"',
        priority=0,
        run_at=NOW,
        attempts=1,
        max_attempts=1,
        last_error="gave up",
        created_at=NOW,
        died_at=NOW + 5,
    )


def test_a_failed_job_is_a_dead_letter_at_once(session: Session) -> None:
    job_id = enqueued_and_claimed(session)
    assert session.fail(job_id, "w", "broken")
    dead = session.get_dead(job_id)
    assert dead is not None
    assert (dead.last_error, dead.attempts, dead.max_attempts) == ("broken", 1, 3)


def test_the_error_of_every_attempt_is_kept_with_the_job_also_when_it_is_dead(
    session: Session, clock: FakeClock
) -> None:
    job_id = enqueued_and_claimed(session)
    session.retry(job_id, "w", 0, "first")
    session.claim("q", "slow", 1, 10)
    clock.advance(11)
    session.claim("q", "w", 1, 10)
    expected = [(1, "w", "first", NOW), (2, "slow", LAPSED, NOW + 11)]
    assert session.attempt_errors(job_id) == expected
    session.fail(job_id, "w", "last")
    assert session.attempt_errors(job_id) == [*expected, (3, "w", "last", NOW + 11)]


def test_what_failed_is_told_from_what_was_released(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1", max_attempts=9)
    assert session.times_failed(job_id) == 0
    for expected, was_released in enumerate([True, False, True, False]):
        session.claim("q", "w", 1, 10)
        if was_released:
            session.release([job_id], "w")
        else:
            session.retry(job_id, "w", 0, "why")
        assert session.times_failed(job_id) == (expected + 1) // 2
    session.claim("q", "w", 1, 10)
    clock.advance(11)
    session.claim("q", "w", 1, 10)
    assert session.times_failed(job_id) == 3
    session.fail(job_id, "w", "why")
    session.requeue_dead([job_id])
    session.claim("q", "w", 1, 10)
    session.retry(job_id, "w", 0, "why")
    assert session.times_failed(job_id) == 1
    assert session.times_failed(1) == 0


@pytest.mark.parametrize("end", ["ack", "cancel", "purge"])
def test_the_errors_of_a_job_go_with_it(session: Session, end: str) -> None:
    job_id = enqueued_and_claimed(session)
    session.retry(job_id, "w", 0, "first")
    session.claim("q", "w", 1, 60)
    if end == "ack":
        session.ack(job_id, "w")
    elif end == "cancel":
        session.cancel(job_id)
    else:
        session.fail(job_id, "w", "last")
        session.purge_dead("q", None)
    assert session.attempt_errors(job_id) == []


def test_buried_jobs_are_dead_letters_with_the_reason_given(session: Session) -> None:
    ids = session.enqueue_many("q", ["1", "2"])
    session.bury(ids, "not wanted")
    session.bury([], "nothing to bury")
    assert [(dead.id, dead.last_error) for dead in session.list_dead("q", 0, 10)] == [
        (job_id, "not wanted") for job_id in ids
    ]
    assert not session.queue_has_rows("q")


# Extend and release


@pytest.mark.parametrize(("lease", "end"), [(30, NOW + 35), (1, NOW + 6), (0.5, NOW + 5.75)])
def test_a_renewed_lease_counts_from_now(session: Session, clock: FakeClock, lease: float, end: float) -> None:
    job_id = enqueued_and_claimed(session)
    clock.advance(5.25)
    assert session.extend(job_id, "w", lease) == end
    job = session.get_job(job_id)
    assert job is not None
    assert (job.claim_expires_at, job.state, job.attempts) == (end, "processing", 1)


@pytest.mark.guarantee("G5")
def test_a_released_job_is_due_at_once_and_its_attempt_does_not_count(session: Session) -> None:
    job_id = enqueued_and_claimed(session, max_attempts=1)
    assert session.release([job_id, 1], "w") == 1
    assert session.release([job_id], "w") == 0
    ((job, last_error),) = session.claim("q", "w", 1, 60)
    assert (job.id, last_error) == (job_id, None)
    session.retry(job_id, "w", 0, "the one attempt that it had")
    assert session.get_dead(job_id) is not None


# Cancel


@pytest.mark.parametrize("running", [False, True])
def test_a_cancelled_job_is_gone_running_or_not(session: Session, running: bool) -> None:
    job_id = enqueued_and_claimed(session) if running else session.enqueue("q", "1")
    assert session.cancel(job_id)
    assert not session.cancel(job_id)
    assert session.get_job(job_id) is None
    assert session.get_dead(job_id) is None


# Lifecycle events


def recorded(session: Session) -> list[tuple[str, int, int]]:
    events = [json.loads(row[3]) for row in session.read_stream(JOB_EVENTS_TOPIC, 0, -1)]
    return [(event["event"], event["job_id"], event["attempt"]) for event in events]


def test_no_events_are_recorded_unless_asked_for(session: Session) -> None:
    job_id = enqueued_and_claimed(session)
    session.ack(job_id, "w")
    assert not session.wants_events("q")
    assert recorded(session) == []


def test_what_becomes_of_a_job_is_recorded(session: Session, clock: FakeClock) -> None:
    session.record_queue_events("q", True)
    assert session.wants_events("q")
    done, failed, cancelled = session.enqueue_many("q", ["1", "2", "3"])
    read = session.enqueue("q", "4")
    session.claim("q", "w", 2, 60)
    session.retry(done, "w", 0, "again")
    session.claim("q", "w", 1, 60)
    session.ack(done, "w")
    session.fail(failed, "w", "broken")
    session.cancel(cancelled)
    session.take("q", 1)
    session.requeue_dead([failed])
    session.delete_message("q", failed)
    lost = session.enqueue("q", "5", expires=1)
    clock.advance(1)
    session.sweep_expired("q")
    assert recorded(session) == [
        ("enqueued", done, 0),
        ("enqueued", failed, 0),
        ("enqueued", cancelled, 0),
        ("enqueued", read, 0),
        ("claimed", done, 1),
        ("claimed", failed, 1),
        ("retried", done, 1),
        ("claimed", done, 2),
        ("completed", done, 2),
        ("dead", failed, 1),
        ("cancelled", cancelled, 0),
        ("completed", read, 0),
        ("enqueued", failed, 0),
        ("cancelled", failed, 0),
        ("enqueued", lost, 0),
        ("dead", lost, 0),
    ]


def test_an_event_tells_who_when_and_why(session: Session, clock: FakeClock) -> None:
    job_id = enqueued_and_claimed(session)
    session.record_queue_events("q", True)
    clock.advance(1.5)
    session.fail(job_id, "w", "broken")
    ((*_, text, _),) = session.read_stream(JOB_EVENTS_TOPIC, 0, -1)
    assert json.loads(text) == {
        "event": "dead",
        "queue": "q",
        "job_id": job_id,
        "attempt": 1,
        "at": NOW + 1.5,
        "error": "broken",
    }


def test_events_can_be_switched_off_again(session: Session) -> None:
    session.record_queue_events("q", True)
    session.record_queue_events("q", False)
    session.enqueue("q", "1")
    assert not session.wants_events("q")
    assert recorded(session) == []


def test_emit_publishes_one_event_for_each_job(session: Session) -> None:
    session.emit("noted", [(7, "q", 1), (8, "q", 2)], by="hand")
    session.emit("noted", [])
    assert recorded(session) == [("noted", 7, 1), ("noted", 8, 2)]
