"""What a worker outside Python builds on: a queue by a job's id, the time until a claim, giving a job back."""

from __future__ import annotations

import pytest

import brant
from brant.testing import FakeClock


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q", visibility_timeout_s=10)


def claimed(queue: brant.Queue, worker: str = "w", lease_s: float | None = None) -> brant.Job:
    job = queue.claim_one(worker, lease_s)
    assert job is not None
    return job


def test_the_queue_of_a_job_is_found_by_its_id_live_or_dead(timed: brant.Database, queue: brant.Queue) -> None:
    live = timed.queue("other").enqueue(1)
    dead = queue.enqueue(2)
    claimed(queue).fail("boom")
    assert timed.queue_of_job(live) is timed.queue("other")
    assert timed.queue_of_job(dead) is queue
    assert timed.queue_of_job(42) is None


def test_due_in_is_zero_when_a_job_is_due(queue: brant.Queue) -> None:
    assert queue.due_in() is None
    queue.enqueue(1)
    assert queue.due_in() == 0


def test_due_in_counts_down_to_a_delayed_job(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue(1, delay=30)
    assert queue.due_in() == 30
    clock.advance(29.5)
    assert queue.due_in() == 0.5
    clock.advance(0.5)
    assert queue.due_in() == 0


def test_due_in_counts_down_to_the_end_of_a_lease(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue(1)
    claimed(queue, lease_s=0.5)
    assert queue.due_in() == 0.5
    clock.advance(0.6)
    assert queue.due_in() == 0


@pytest.mark.guarantee("G20")
def test_a_paused_queue_is_never_due(queue: brant.Queue) -> None:
    queue.enqueue(1)
    queue.pause()
    assert queue.due_in() is None


def test_a_job_given_back_is_due_at_once_and_its_attempt_does_not_count(queue: brant.Queue) -> None:
    queue.enqueue(1, max_attempts=1)
    job = claimed(queue)
    assert job.release()
    again = claimed(queue)
    assert (again.id, again.attempts, again.max_attempts, again.last_error) == (job.id, 2, 2, None)


@pytest.mark.guarantee("G4")
def test_who_gave_a_job_back_can_not_settle_the_claim_of_a_namesake(queue: brant.Queue) -> None:
    queue.enqueue(1)
    given_back = claimed(queue, "namesake")
    given_back.release()
    holder = claimed(queue, "namesake")
    assert not given_back.ack()
    assert holder.ack()


@pytest.mark.guarantee("G4")
def test_only_who_holds_a_job_can_give_it_back(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue(1)
    late = claimed(queue, "namesake", lease_s=1)
    assert not queue.release(late.id, "stranger")
    clock.advance(5)
    holder = claimed(queue, "namesake")
    assert not late.release()
    assert holder.heartbeat()
    assert holder.release()
    assert not holder.release()


def test_giving_back_takes_part_in_a_transaction(timed: brant.Database, queue: brant.Queue) -> None:
    queue.enqueue(1)
    job = claimed(queue)
    with pytest.raises(ZeroDivisionError), timed.transaction() as tx:
        assert job.release(tx=tx)
        raise ZeroDivisionError
    assert job.heartbeat()


@pytest.mark.guarantee("G4")
def test_a_heartbeat_by_id_can_check_the_attempt(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue(1)
    late = claimed(queue, lease_s=1)
    clock.advance(5)
    holder = claimed(queue)
    assert not queue.heartbeat(late.id, "w", 60, attempt=late.attempts)
    assert queue.heartbeat(holder.id, "w", 60, attempt=holder.attempts)


@pytest.mark.parametrize(
    ("payload", "text"), [("naïve\n😀", "naïve\n😀"), ({"a": [1, "é"]}, '{"a":[1,"é"]}'), (None, "null"), ("", "")]
)
def test_the_text_of_a_job_is_what_the_shell_prints(queue: brant.Queue, payload: object, text: str) -> None:
    job_id = queue.enqueue(payload)
    assert queue.peek() == text
    job = claimed(queue)
    assert job.text == text
    job.fail("boom")
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert dead.text == text
