"""What goes on between two looks: jobs that came and went, and who runs what."""

from __future__ import annotations

import pytest

import brant
from brant.activity import Flow, Watcher
from brant.tasks import envelope
from brant.testing import FakeClock


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


@pytest.fixture
def watcher(timed: brant.Database) -> Watcher:
    return Watcher(timed, most_running=5)


def flow(watcher: Watcher) -> Flow:
    return watcher.look().flows["q"]


def came_and_went(queue: brant.Queue, count: int) -> None:
    queue.enqueue_many(range(count))
    for job in queue.claim_batch("w", count):
        job.ack()


def test_the_first_look_knows_no_rates(queue: brant.Queue, watcher: Watcher) -> None:
    queue.enqueue(1)
    assert watcher.look().flows == {}


def test_rates_are_of_the_time_between_two_looks(queue: brant.Queue, watcher: Watcher, clock: FakeClock) -> None:
    queue.enqueue_many(range(10))
    watcher.look()
    for job in queue.claim_batch("w", 4):
        job.ack()
    queue.enqueue_many(range(6))
    clock.advance(2)
    assert flow(watcher) == Flow(enqueued=3, finished=2, is_exact=False)


def test_a_queue_in_which_as_many_come_as_go_is_not_taken_for_idle(
    queue: brant.Queue, watcher: Watcher, clock: FakeClock
) -> None:
    queue.enqueue_many(range(4))
    watcher.look()
    for job in queue.claim_batch("w", 4):
        job.ack()
    queue.enqueue_many(range(4))
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=4, finished=4, is_exact=False)


def test_what_came_and_went_between_the_looks_is_known_of_a_queue_that_records_events(
    queue: brant.Queue, watcher: Watcher, clock: FakeClock
) -> None:
    queue.record_events()
    watcher.look()
    came_and_went(queue, 1500)
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=1500, finished=1500, is_exact=True)


def test_what_came_and_went_between_the_looks_is_missing_otherwise(
    queue: brant.Queue, watcher: Watcher, clock: FakeClock
) -> None:
    queue.enqueue("stays")
    watcher.look()
    came_and_went(queue, 3)
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=1, finished=1, is_exact=False)


def test_when_no_job_came_the_rates_are_exact(queue: brant.Queue, watcher: Watcher, clock: FakeClock) -> None:
    queue.enqueue_many(range(2))
    watcher.look()
    queue.claim_batch("w", 1)[0].ack()
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=0, finished=1, is_exact=True)


def test_a_requeued_job_has_come_and_a_dead_one_has_gone(
    queue: brant.Queue, watcher: Watcher, clock: FakeClock
) -> None:
    queue.enqueue(1)
    watcher.look()
    queue.claim_batch("w", 1)[0].fail("no")
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=0, finished=1, is_exact=True)
    queue.requeue_dead(queue.list_dead()[0].id)
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=1, finished=0, is_exact=True)


@pytest.mark.parametrize("payload", ["text", {"event": "enqueued"}, {"event": 7, "queue": "q"}])
def test_strange_events_count_for_nothing(
    queue: brant.Queue, watcher: Watcher, clock: FakeClock, payload: object
) -> None:
    queue.record_events()
    watcher.look()
    queue.db.job_events().publish(payload)
    clock.advance(1)
    assert flow(watcher) == Flow(enqueued=0, finished=0, is_exact=True)


def test_two_looks_at_one_moment_have_no_rates(queue: brant.Queue, watcher: Watcher) -> None:
    queue.enqueue(1)
    watcher.look()
    assert watcher.look().flows == {}


def test_the_numbers_are_those_of_list_queues(queue: brant.Queue, watcher: Watcher, clock: FakeClock) -> None:
    queue.enqueue_many(range(5))
    queue.enqueue("later", delay=60)
    queue.claim_batch("w", 2)
    queue.db.queue("other").pause()
    clock.advance(7)
    assert watcher.look().queues == queue.db.list_queues()


def test_running_jobs_are_told_by_worker_with_their_task(
    queue: brant.Queue, watcher: Watcher, clock: FakeClock
) -> None:
    queue.enqueue(envelope("app.send", (1,), {}))
    queue.enqueue("raw")
    queue.claim_one("b", 60)
    queue.claim_one("a", 10)
    clock.advance(20)
    look = watcher.look()
    assert [(job.worker_id, job.task, job.lease_left_s) for job in look.running] == [
        ("a", None, -10),
        ("b", "app.send", 40),
    ]
    assert {(job.queue, job.attempt, job.max_attempts) for job in look.running} == {("q", 1, 3)}


def test_no_more_running_jobs_are_told_than_wanted(queue: brant.Queue, watcher: Watcher) -> None:
    queue.enqueue_many(range(9))
    queue.claim_batch("w", 9)
    assert len(watcher.look().running) == 5
