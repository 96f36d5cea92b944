"""Claiming what is due: order, leases, attempts, and what a Job tells."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import write_lock_held

pytestmark = pytest.mark.both_backends


def claimed(queue: brant.Queue, worker: str = "w", n: int = 100) -> list[object]:
    return [job.payload for job in queue.claim_batch(worker, n)]


def the_job(queue: brant.Queue, worker: str = "w", lease_s: float | None = None) -> brant.Job:
    job = queue.claim_one(worker, lease_s)
    assert job is not None
    return job


@pytest.mark.guarantee("G6")
def test_jobs_come_by_priority_then_run_at_then_id(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    now = clock.now()
    queue.enqueue("low", priority=-1, run_at=now - 99)
    queue.enqueue("later", run_at=now - 1)
    queue.enqueue("first of two", run_at=now - 2)
    queue.enqueue("second of two", run_at=now - 2)
    queue.enqueue("high", priority=5)
    expected = ["high", "first of two", "second of two", "later", "low"]
    assert claimed(queue) == expected


@pytest.mark.guarantee("G6")
@pytest.mark.parametrize("n", [1, 2, 100])
def test_the_order_is_the_same_whatever_the_batch(timed: brant.Database, n: int) -> None:
    queue = timed.queue("q")
    for number in range(12):
        queue.enqueue(number, priority=number * 7 % 5)
    order = [payload for _ in range(12) for payload in claimed(queue, n=n)]
    assert order == sorted(range(12), key=lambda number: (-(number * 7 % 5), number))


@pytest.mark.guarantee("G6")
def test_jobs_of_one_second_come_first_in_first_out(timed: brant.Database) -> None:
    queue = timed.queue("q")
    for number in range(50):
        queue.enqueue(number)
    assert claimed(queue) == list(range(50))


def test_a_claimed_job_knows_its_row(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=60, max_attempts=3)
    job_id = queue.enqueue({"n": 1}, priority=4, max_attempts=8, expires=90, run_at=clock.now() - 5)
    job = the_job(queue, "w1")
    assert job.queue is queue
    facts = [name for name in brant.Job.__slots__ if not name.startswith("_") and name != "queue"]
    assert {name: getattr(job, name) for name in facts} == {
        "id": job_id,
        "queue_name": "q",
        "state": "processing",
        "worker_id": "w1",
        "attempts": 1,
        "max_attempts": 8,
        "priority": 4,
        "run_at": 1_699_999_995,
        "created_at": 1_700_000_000,
        "expires_at": 1_700_000_090,
        "claim_expires_at": 1_700_000_060,
        "last_error": None,
    }
    assert job.payload == {"n": 1}


def test_a_job_claimed_again_knows_its_last_error(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    the_job(queue).retry(0, "first")
    the_job(queue).retry(0, "second")
    assert (job := the_job(queue)).last_error == "second"
    assert job.attempts == 3


@pytest.mark.guarantee("G4")
def test_a_claimed_job_is_not_handed_out_again(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    the_job(queue)
    assert queue.claim_one("other") is None
    assert queue.claim_one("w") is None


def test_queues_do_not_see_each_others_jobs(db: brant.Database) -> None:
    db.queue("a").enqueue(1)
    assert db.queue("b").claim_one("w") is None
    assert claimed(db.queue("a")) == [1]


@pytest.mark.parametrize("n", [0, -1, -100])
def test_asking_for_no_jobs_gives_none_and_takes_no_lock(path: Path, n: int) -> None:
    with brant.open(path, busy_timeout_ms=0) as db:
        db.queue("q").enqueue(1)
        with write_lock_held(path):
            assert db.queue("q").claim_batch("w", n) == []


def test_a_batch_is_no_larger_than_asked_for(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(5))
    assert claimed(queue, n=3) == [0, 1, 2]
    assert claimed(queue, n=3) == [3, 4]
    assert claimed(queue, n=3) == []


def test_a_lease_may_be_chosen_for_one_claim(timed: brant.Database) -> None:
    queue = timed.queue("q", visibility_timeout_s=300)
    queue.enqueue(1)
    assert the_job(queue, lease_s=7).claim_expires_at == 1_700_000_007


@pytest.mark.parametrize("worker", ["", None, 5, b"w", "\ud800"])
@pytest.mark.parametrize("verb", ["claim_one", "claim_batch"])
@pytest.mark.guarantee("G19")
def test_a_bad_worker_id_is_refused_and_nothing_is_claimed(db: brant.Database, verb: str, worker: object) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(1)
    with pytest.raises(brant.InvalidValue, match="worker_id"):
        getattr(queue, verb)(worker, *([1] if verb == "claim_batch" else []))
    row = queue.get_job(job_id)
    assert row is not None
    assert (row["state"], row["attempts"]) == ("pending", 0)


@pytest.mark.parametrize("worker", ["", 5, b"w", "\ud800"])
@pytest.mark.guarantee("G19")
def test_an_iteration_with_a_bad_worker_id_does_not_begin(db: brant.Database, worker: object) -> None:
    with pytest.raises(brant.InvalidValue, match="worker_id"):
        db.queue("q").claim(worker)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [None, "1", 1.5, float("nan"), 2**63])
@pytest.mark.guarantee("G19")
def test_a_bad_number_of_jobs_is_refused(db: brant.Database, n: object) -> None:
    with pytest.raises(brant.InvalidValue, match="n must be"):
        db.queue("q").claim_batch("w", n)  # type: ignore[arg-type]


@pytest.mark.parametrize("lease", [-1, -0.5, "60", float("nan"), float("inf"), 10**400, 1e300])
@pytest.mark.guarantee("G19")
def test_a_bad_lease_is_refused_and_nothing_is_claimed(db: brant.Database, lease: object) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(1)
    with pytest.raises(brant.InvalidValue, match="lease_s"):
        queue.claim_one("w", lease)  # type: ignore[arg-type]
    row = queue.get_job(job_id)
    assert row is not None
    assert row["attempts"] == 0


@pytest.mark.parametrize("poll", [0, -1, "5", float("nan"), float("inf")])
@pytest.mark.guarantee("G19")
def test_a_bad_idle_poll_is_refused(db: brant.Database, poll: object) -> None:
    with pytest.raises(brant.InvalidValue, match="idle_poll_s"):
        db.queue("q").claim("w", idle_poll_s=poll)  # type: ignore[arg-type]


def test_unique_worker_ids_differ(db: brant.Database) -> None:
    assert len({db.unique_worker_id() for _ in range(100)}) == 100


# Attempts


@pytest.mark.guarantee("G5")
def test_attempts_are_counted_at_the_claim(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=10, max_attempts=5)
    queue.enqueue(1)
    for attempt in (1, 2, 3):
        assert the_job(queue).attempts == attempt
        clock.advance(11)


@pytest.mark.guarantee("G5")
def test_a_job_whose_workers_crash_dies_with_its_attempts_unchanged(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=10, max_attempts=2)
    job_id = queue.enqueue(1)
    for _ in range(2):
        the_job(queue)
        clock.advance(11)
    assert queue.claim_one("w") is None
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.attempts, dead.max_attempts, dead.last_error) == (2, 2, "max attempts exceeded")


def test_a_lapsed_lease_is_remembered_as_that_attempts_error(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=10)
    job_id = queue.enqueue(1)
    the_job(queue, "crasher")
    clock.advance(11)
    job = the_job(queue, "next")
    [error] = queue.errors(job_id)
    assert (error.attempt, error.worker_id, error.failed_at) == (1, "crasher", 1_700_000_011)
    assert job.last_error == error.error


@pytest.mark.guarantee("G5")
def test_a_valid_last_claim_is_not_taken_away(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=10, max_attempts=1)
    queue.enqueue(1)
    job = the_job(queue)
    clock.advance(10)
    assert queue.claim_one("other") is None
    assert queue.list_dead() == []
    assert job.ack()


@pytest.mark.guarantee("G5")
def test_a_job_without_attempts_dies_at_the_first_claim_and_never_runs(db: brant.Database) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(1, max_attempts=0)
    queue.enqueue("good")
    assert claimed(queue) == ["good"]
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.attempts, dead.last_error) == (0, "max attempts exceeded")


def test_many_exhausted_jobs_do_not_hide_a_good_one(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(2_500), max_attempts=0, priority=1)
    queue.enqueue("good")
    assert claimed(queue, n=1) == ["good"]
    assert queue.stats().dead == 2_500
