"""Jobs are enqueued and claimed."""

from __future__ import annotations

from typing import Any

import pytest

from brant.storage.base import JobRow, Storage
from brant.storage.jobs import Claimable
from brant.storage.limits import LimitRow
from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000


def claimed_ids(session: Session, *, limit: int = -1, lease: float = 60, worker: str = "w") -> list[int]:
    return [job.id for job, _ in session.claim("q", worker, limit, lease)]


# Enqueue


def test_a_job_is_stored_as_it_was_given(session: Session) -> None:
    job_id = session.enqueue("q", '{"n": 1}', priority=5, max_attempts=7, expires=60)
    assert session.get_job(job_id) == JobRow(
        id=job_id,
        queue="q",
        payload='{"n": 1}',
        state="pending",
        priority=5,
        run_at=NOW,
        worker_id=None,
        claim_expires_at=None,
        attempts=0,
        max_attempts=7,
        created_at=NOW,
        expires_at=NOW + 60,
    )


def test_an_unknown_job_is_none(session: Session) -> None:
    assert session.get_job(1) is None


@pytest.mark.guarantee("G6")
def test_ids_are_microseconds_that_grow_even_if_the_clock_goes_back(session: Session, clock: FakeClock) -> None:
    first = session.enqueue("q", "1")
    second = session.enqueue("other", "2")
    clock.step_wall(-3600)
    third, fourth = session.enqueue_many("q", ["3", "4"])
    clock.step_wall(7200)
    fifth = session.enqueue("q", "5")
    assert [first, second, third, fourth] == [NOW * 1_000_000 + step for step in range(4)]
    assert fifth == (NOW + 3600) * 1_000_000
    assert session.last_job_id() == fifth


def test_the_last_id_of_an_empty_database_is_0(session: Session) -> None:
    assert session.last_job_id() == 0


@pytest.mark.parametrize(
    ("options", "run_at"),
    [
        ({}, NOW),
        ({"delay": 0}, NOW),
        ({"delay": 5}, NOW + 5),
        ({"delay": 0.5}, NOW + 1.25),
        ({"delay": -5}, NOW - 5),
        ({"run_at": NOW + 9}, NOW + 9),
        ({"run_at": NOW + 9.5}, NOW + 9.5),
        ({"run_at": NOW + 9, "delay": 5}, NOW + 5),
    ],
)
def test_whole_delays_count_from_the_second_and_fractions_from_the_moment(
    session: Session, clock: FakeClock, options: dict[str, Any], run_at: float
) -> None:
    clock.advance(0.75)
    one = session.enqueue("q", "1", **options)
    (many,) = session.enqueue_many("q", ["1"], **options)
    assert [job.run_at for job_id in (one, many) if (job := session.get_job(job_id))] == [run_at, run_at]


@pytest.mark.parametrize(("expires", "at"), [(None, None), (0, NOW), (60, NOW + 60), (0.5, NOW + 1.25)])
def test_expiry_counts_like_a_delay(session: Session, clock: FakeClock, expires: float | None, at: float) -> None:
    clock.advance(0.75)
    job = session.get_job(session.enqueue("q", "1", expires=expires))
    assert job is not None
    assert job.expires_at == at


def test_many_jobs_keep_their_order_beyond_what_one_statement_takes(session: Session) -> None:
    payloads = [str(number) for number in range(5_001)]
    ids = session.enqueue_many("q", payloads, priority=3, max_attempts=9)
    assert ids == sorted(set(ids))
    assert [(job.id, job.payload) for job, _ in session.claim("q", "w", -1, 60)] == list(
        zip(ids, payloads, strict=True)
    )
    last = session.get_job(ids[-1])
    assert last is not None
    assert (last.priority, last.max_attempts) == (3, 9)


def test_no_jobs_are_no_ids_and_no_queue(session: Session) -> None:
    assert session.enqueue_many("q", []) == []
    assert session.queue_names() == []


# Claim


def test_a_claim_leases_the_job_and_counts_the_attempt(session: Session) -> None:
    job_id = session.enqueue("q", '"text"')
    ((job, last_error),) = session.claim("q", "worker-1", 1, 30)
    assert job == session.get_job(job_id)
    assert (job.state, job.worker_id, job.claim_expires_at, job.attempts) == ("processing", "worker-1", NOW + 30, 1)
    assert last_error is None


@pytest.mark.guarantee("G6")
def test_claims_come_by_priority_then_time_then_id(session: Session) -> None:
    late = session.enqueue("q", "1", run_at=NOW - 1)
    early = session.enqueue("q", "2", run_at=NOW - 9.5)
    low = session.enqueue("q", "3", priority=-1, run_at=NOW - 99)
    high = session.enqueue("q", "4", priority=2)
    next_to_late = session.enqueue("q", "5", run_at=NOW - 1)
    assert claimed_ids(session) == [high, early, late, next_to_late, low]


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (2, 2), (9, 3), (-1, 3)])
def test_a_claim_takes_up_to_its_limit_and_a_negative_one_takes_all(session: Session, limit: int, count: int) -> None:
    ids = session.enqueue_many("q", ["1", "2", "3"])
    assert claimed_ids(session, limit=limit) == ids[:count]
    assert claimed_ids(session) == ids[count:]


def test_a_claim_takes_nothing_from_another_queue(session: Session) -> None:
    session.enqueue("Q", "1")
    session.enqueue("q ", "1")
    assert claimed_ids(session) == []


def test_a_job_is_claimed_from_the_moment_it_is_due(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1", delay=1.5)
    clock.advance(1.25)
    assert claimed_ids(session) == []
    clock.advance(0.25)
    assert claimed_ids(session) == [job_id]


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize(("lease", "last_held"), [(10, 10.75), (0, 0.75), (2.5, 2.5)])
def test_a_lease_holds_to_its_end_and_then_the_job_is_claimed_again(
    session: Session, clock: FakeClock, lease: float, last_held: float
) -> None:
    job_id = session.enqueue("q", "1")
    session.claim("q", "first", 1, lease)
    clock.advance(last_held)
    assert claimed_ids(session) == []
    clock.advance(0.25)
    ((job, last_error),) = session.claim("q", "second", 1, 60)
    assert (job.id, job.worker_id, job.attempts) == (job_id, "second", 2)
    assert last_error == "the lease ran out: the worker died or stalled"


@pytest.mark.guarantee("G5")
def test_a_job_whose_last_lease_ran_out_is_a_dead_letter(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1", max_attempts=1)
    session.claim("q", "w", 1, 10)
    clock.advance(11)
    assert claimed_ids(session) == []
    dead = session.get_dead(job_id)
    assert dead is not None
    assert (dead.attempts, dead.last_error, dead.died_at) == (1, "max attempts exceeded", NOW + 11)
    assert session.get_job(job_id) is None


@pytest.mark.guarantee("G5")
def test_a_job_that_may_never_run_is_buried_when_it_is_due(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1", max_attempts=0, delay=5)
    assert claimed_ids(session) == []
    assert session.get_dead(job_id) is None
    clock.advance(5)
    assert claimed_ids(session) == []
    dead = session.get_dead(job_id)
    assert dead is not None
    assert (dead.attempts, dead.last_error) == (0, "max attempts exceeded")


def test_a_job_that_expires_while_it_is_leased_is_a_dead_letter_once_the_lease_ran_out(
    session: Session, clock: FakeClock
) -> None:
    job_id = session.enqueue("q", "1", expires=5)
    session.claim("q", "w", 1, 10)
    clock.advance(11)
    assert claimed_ids(session) == []
    dead = session.get_dead(job_id)
    assert dead is not None
    assert dead.last_error == "expired"


@pytest.mark.guarantee("G20")
def test_a_paused_queue_hands_out_nothing_and_still_frees_lapsed_leases(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1")
    session.claim("q", "w", 1, 10)
    session.pause_queue("q", True)
    clock.advance(11)
    assert claimed_ids(session) == []
    job = session.get_job(job_id)
    assert job is not None
    assert job.state == "pending"


def test_upkeep_tells_whether_the_queue_is_paused_records_events_and_has_limits(storage: Storage) -> None:
    with storage.transaction() as session:
        params = session.times() | {"queue": "q"}
        assert session.upkeep(params) == (False, False, False)
        session.pause_queue("q", True)
        session.record_queue_events("q", True)
        session.set_limit("q", LimitRow("", 1, None, None))
        assert session.upkeep(params) == (True, True, True)


# Expiry


def test_an_expired_job_is_not_claimed_and_is_swept(session: Session, clock: FakeClock) -> None:
    expired = session.enqueue("q", "1", expires=5)
    lasting = session.enqueue("q", "2", expires=6)
    clock.advance(5)
    assert claimed_ids(session) == [lasting]
    assert session.sweep_expired("q") == 1
    dead = session.get_dead(expired)
    assert dead is not None
    assert (dead.last_error, dead.attempts) == ("expired", 0)


def test_the_sweep_takes_all_of_its_own_queue_and_no_leased_job(session: Session, clock: FakeClock) -> None:
    leased = session.enqueue("q", "1", expires=5)
    session.claim("q", "w", 1, 60)
    session.enqueue_many("q", ["2"] * 2_500, expires=5)
    session.enqueue("other", "3", expires=5)
    clock.advance(5)
    assert session.sweep_expired("q") == 2_500
    assert session.sweep_expired("q") == 0
    assert session.ack(leased, "w")
    assert session.queue_counts("other").pending == 1


def test_a_read_tells_whether_there_is_something_to_sweep(session: Session, clock: FakeClock) -> None:
    session.enqueue("q", "1", expires=5)
    session.claim("q", "w", 1, 60)
    session.enqueue("other", "2", expires=5)
    session.enqueue("q", "3")
    session.enqueue("q", "4", expires=6)
    clock.advance(5)
    assert (session.any_expired("q"), session.any_expired("other")) == (False, True)
    clock.advance(1)
    assert session.any_expired("q")
    session.sweep_expired("q")
    assert not session.any_expired("q")


def test_a_claim_buries_expired_jobs_before_they_are_many(session: Session, clock: FakeClock) -> None:
    session.enqueue_many("q", ["1"] * 100, expires=5)
    clock.advance(5)
    assert claimed_ids(session) == []
    assert session.queue_counts("q")[:4] == (0, 0, 0, 100)


# What a worker waits for


@pytest.mark.parametrize(
    ("options", "lease", "expected"),
    [
        (None, None, Claimable(False, None)),
        ({}, None, Claimable(True, None)),
        ({"delay": 5}, None, Claimable(False, NOW + 5)),
        ({"delay": 0.5}, None, Claimable(False, NOW + 0.5)),
        ({"max_attempts": 0}, None, Claimable(True, None)),
        ({"expires": 0}, None, Claimable(False, None)),
        ({}, 10, Claimable(False, NOW + 11)),
        ({}, 2.5, Claimable(False, NOW + 2.5)),
        ({"max_attempts": 1}, 10, Claimable(False, NOW + 11)),
    ],
)
def test_claimable_tells_whether_there_is_work_and_when_there_will_be(
    session: Session, options: dict[str, Any] | None, lease: float | None, expected: Claimable
) -> None:
    if options is not None:
        session.enqueue("q", "1", **options)
    if lease is not None:
        session.claim("q", "w", 1, lease)
    assert session.claimable("q") == expected


@pytest.mark.parametrize(("lease", "lapsed_after"), [(10, 11), (2.5, 2.75)])
def test_a_lapsed_lease_is_claimable(session: Session, clock: FakeClock, lease: float, lapsed_after: float) -> None:
    session.enqueue("q", "1")
    session.claim("q", "w", 1, lease)
    clock.advance(lapsed_after)
    assert session.claimable("q").now


@pytest.mark.guarantee("G20")
def test_nothing_is_claimable_in_a_paused_queue(session: Session) -> None:
    session.enqueue("q", "1")
    session.enqueue("q", "1", delay=5)
    session.pause_queue("q", True)
    assert session.claimable("q") == Claimable(False, None)


def test_what_is_waited_for_is_the_earliest_of_delays_and_whole_and_fractional_leases(session: Session) -> None:
    session.enqueue("q", "1", delay=9)
    session.enqueue_many("q", ["2", "3"])
    session.claim("q", "w", 1, 3)
    session.claim("q", "w", 1, 3.5)
    assert session.claimable("q").next_at == NOW + 3.5
    assert session.next_claim_at("q") == NOW + 3.5


@pytest.mark.parametrize(
    ("options", "lease", "expected"),
    [
        (None, None, 0),
        ({}, None, 0),
        ({"delay": 5}, None, NOW + 5),
        ({"delay": 5, "max_attempts": 0}, None, 0),
        ({"delay": 5, "expires": 0}, None, 0),
        ({}, 10, NOW + 11),
        ({}, 0, NOW + 1),
        ({"max_attempts": 1}, 10, 0),
    ],
)
def test_next_claim_at_answers_as_honker_does(
    session: Session, options: dict[str, Any] | None, lease: float | None, expected: float
) -> None:
    if options is not None:
        session.enqueue("q", "1", **options)
    if lease is not None:
        session.claim("q", "w", 1, lease)
    assert session.next_claim_at("q") == expected
