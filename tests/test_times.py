"""When jobs are due, leases end and jobs expire: to the second, and to the fraction where one was asked for."""

from __future__ import annotations

import pytest

import brant
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends

NOW = 1_700_000_000


def the_job(queue: brant.Queue, lease_s: float | None = None) -> brant.Job:
    job = queue.claim_one("w", lease_s)
    assert job is not None
    return job


def next_claim_at(db: brant.Database, queue: str = "q") -> float:
    with db.transaction() as tx:
        [row] = tx.query("SELECT honker_queue_next_claim_at(?) AS at", [queue])
    at: float = row["at"]
    return at


def row_of(queue: brant.Queue, job_id: int, column: str) -> object:
    row = queue.get_job(job_id)
    assert row is not None
    return row[column]


# Leases


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("claimed_at", [0.0, 0.25, 0.999])
def test_a_whole_lease_holds_to_the_end_of_its_last_second(
    timed: brant.Database, clock: FakeClock, claimed_at: float
) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    clock.advance(claimed_at)
    job = the_job(queue, lease_s=5)
    assert job.claim_expires_at == NOW + 5
    clock.advance(5.999 - claimed_at)
    assert queue.claim_one("thief") is None
    assert job.heartbeat(0)
    clock.advance(0.002)
    assert not job.heartbeat(5)
    assert queue.claim_one("thief") is not None


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", ["ack", "retry", "fail", "heartbeat"])
def test_at_the_very_second_of_its_end_the_holder_still_owns_the_job(
    timed: brant.Database, clock: FakeClock, verb: str
) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    job = the_job(queue, lease_s=5)
    clock.advance(5)
    assert getattr(job, verb)()


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", ["ack", "retry", "fail", "heartbeat"])
def test_a_second_later_it_does_not_though_nobody_took_it(timed: brant.Database, clock: FakeClock, verb: str) -> None:
    queue = timed.queue("q")
    job_id = queue.enqueue(1)
    job = the_job(queue, lease_s=5)
    clock.advance(6)
    assert not getattr(job, verb)()
    assert row_of(queue, job_id, "state") == "processing"


@pytest.mark.guarantee("G4")
def test_a_fractional_lease_ends_when_it_says(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    job = the_job(queue, lease_s=0.25)
    assert job.claim_expires_at == NOW + 0.25
    clock.advance(0.25)
    assert queue.claim_one("thief") is None
    assert job.heartbeat(0.25)
    clock.advance(0.26)
    assert not job.ack()
    assert queue.claim_one("thief") is not None


def test_a_lease_of_nothing_lasts_to_the_end_of_the_second(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    the_job(queue, lease_s=0)
    clock.advance(0.5)
    assert queue.claim_one("thief") is None
    clock.advance(0.5)
    assert queue.claim_one("thief") is not None


def test_a_heartbeat_counts_from_now_and_may_shorten(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=60)
    queue.enqueue(1)
    job = the_job(queue)
    clock.advance(10)
    assert job.heartbeat()
    assert job.claim_expires_at == NOW + 70
    assert job.heartbeat(5)
    assert job.claim_expires_at == row_of(queue, job.id, "claim_expires_at") == NOW + 15
    assert job.heartbeat(0.5)
    assert row_of(queue, job.id, "claim_expires_at") == NOW + 10.5


# Delays


def test_a_whole_delay_is_due_at_its_second(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue(1, delay=5)
    clock.advance(4.999)
    assert queue.claim_one("w") is None
    clock.advance(0.002)
    assert queue.claim_one("w") is not None


def test_a_fractional_delay_is_exact(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    job_id = queue.enqueue(1, delay=0.25)
    assert row_of(queue, job_id, "run_at") == NOW + 0.25
    clock.advance(0.125)
    assert queue.claim_one("w") is None
    clock.advance(0.125)
    assert queue.claim_one("w") is not None


@pytest.mark.parametrize("delay", [0.25, 5])
def test_a_retry_is_due_after_its_delay(timed: brant.Database, clock: FakeClock, delay: float) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    the_job(queue).retry(delay, "later")
    clock.advance(delay - 0.125)
    assert queue.claim_one("w") is None
    clock.advance(0.125)
    assert queue.claim_one("w") is not None


def test_a_step_back_of_the_wall_clock_holds_jobs_back_and_loses_none(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    clock.step_wall(-3600)
    assert queue.claim_one("w") is None
    clock.advance(3600)
    assert queue.claim_one("w") is not None


# Expiry


@pytest.mark.parametrize(("expires", "lives_for"), [(5, 5), (0.5, 0.5), (1, 1)])
def test_a_job_may_be_started_until_it_expires(
    timed: brant.Database, clock: FakeClock, expires: float, lives_for: float
) -> None:
    queue = timed.queue("q")
    queue.enqueue("first", expires=expires)
    queue.enqueue("second", expires=expires)
    clock.advance(lives_for - 0.125)
    assert the_job(queue).payload == "first"
    clock.advance(0.125)
    assert queue.claim_one("w") is None


@pytest.mark.parametrize("expires", [0, -1, -0.5])
def test_a_job_born_expired_never_runs_and_is_swept(timed: brant.Database, expires: float) -> None:
    queue = timed.queue("q")
    job_id = queue.enqueue(1, expires=expires)
    assert queue.claim_one("w") is None
    assert queue.sweep_expired() == 1
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.last_error, dead.attempts) == ("expired", 0)


def test_sweeping_takes_only_expired_jobs_of_this_queue(timed: brant.Database, clock: FakeClock) -> None:
    queue, other = timed.queue("q"), timed.queue("other")
    queue.enqueue("expired", expires=5)
    queue.enqueue("alive", expires=6)
    queue.enqueue("for ever")
    other.enqueue("elsewhere", expires=5)
    clock.advance(5)
    assert queue.sweep_expired() == 1
    assert [dead.payload for dead in queue.list_dead()] == ["expired"]
    assert other.list_dead() == []
    assert queue.sweep_expired() == 0


def test_a_running_job_does_not_expire(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue(1, expires=5)
    job = the_job(queue, lease_s=60)
    clock.advance(30)
    assert queue.sweep_expired() == 0
    assert queue.claim_one("other") is None
    assert job.ack()


@pytest.mark.guarantee("G2")
def test_a_job_that_expired_while_its_worker_crashed_is_a_dead_letter(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    job_id = queue.enqueue(1, expires=5)
    the_job(queue, lease_s=10)
    clock.advance(11)
    assert queue.claim_one("w") is None
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.last_error, dead.attempts) == ("expired", 1)
    assert queue.get_job(job_id) is None


@pytest.mark.guarantee("G2")
def test_a_job_retried_after_it_expired_is_swept_and_not_a_zombie(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    job_id = queue.enqueue(1, expires=5)
    job = the_job(queue)
    clock.advance(6)
    assert job.retry(0, "boom")
    assert queue.claim_one("w") is None
    assert queue.sweep_expired() == 1
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert dead.last_error == "expired"
    assert [error.error for error in queue.errors(job_id)] == ["boom"]


def test_many_expired_jobs_do_not_hide_a_good_one(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(range(2_500), expires=0, priority=1)
    queue.enqueue("good")
    assert the_job(queue).payload == "good"
    assert queue.stats().dead == 2_500


# The next claim


def test_the_next_claim_is_the_next_delayed_job(timed: brant.Database) -> None:
    queue = timed.queue("q")
    assert next_claim_at(timed) == 0
    queue.enqueue(1)
    assert next_claim_at(timed) == 0
    queue.enqueue(1, delay=20)
    queue.enqueue(1, delay=10)
    assert next_claim_at(timed) == NOW + 10


@pytest.mark.parametrize("waited", [0, 5])
def test_the_next_claim_of_a_held_job_is_the_second_after_its_lease(
    timed: brant.Database, clock: FakeClock, waited: float
) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    the_job(queue, lease_s=5)
    clock.advance(waited)
    assert next_claim_at(timed) == NOW + 6
    clock.advance(6 - waited)
    assert next_claim_at(timed) == 0


def test_the_next_claim_of_a_fractional_lease_is_its_end(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue(1)
    the_job(queue, lease_s=2.5)
    assert next_claim_at(timed) == NOW + 2.5


def test_the_next_claim_skips_what_will_never_run(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue("last attempt", max_attempts=1)
    the_job(queue)
    queue.enqueue("no attempts", max_attempts=0, delay=5)
    queue.enqueue("expired", expires=0, delay=5)
    assert next_claim_at(timed) == 0
