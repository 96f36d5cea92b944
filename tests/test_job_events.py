"""Lifecycle events of jobs: opt-in, in the transaction that causes them, without payloads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    queue = timed.queue("q")
    queue.record_events()
    return queue


def events(queue: brant.Queue) -> list[dict[str, Any]]:
    return [event.payload for event in queue.db.job_events().read()]


def names(queue: brant.Queue) -> list[str]:
    return [event["event"] for event in events(queue)]


def claimed(queue: brant.Queue) -> brant.Job:
    job = queue.claim_one("w")
    assert job is not None
    return job


def test_nothing_is_recorded_unless_asked_for(timed: brant.Database) -> None:
    queue = timed.queue("quiet")
    queue.enqueue(1)
    claimed(queue).ack()
    assert events(queue) == []


def test_the_life_of_a_job(queue: brant.Queue, clock: FakeClock) -> None:
    job_id = queue.enqueue({"secret": 1})
    claimed(queue).retry(0, "again")
    clock.advance(1)
    claimed(queue).ack()
    facts = {"queue": "q", "job_id": job_id}
    assert events(queue) == [
        facts | {"event": "enqueued", "attempt": 0, "at": 1_700_000_000},
        facts | {"event": "claimed", "attempt": 1, "at": 1_700_000_000, "worker": "w"},
        facts | {"event": "retried", "attempt": 1, "at": 1_700_000_000, "worker": "w", "error": "again"},
        facts | {"event": "claimed", "attempt": 2, "at": 1_700_000_001, "worker": "w"},
        facts | {"event": "completed", "attempt": 2, "at": 1_700_000_001, "worker": "w"},
    ]


def test_a_job_that_calls_a_task_tells_its_name_and_no_more(queue: brant.Queue) -> None:
    queue.enqueue({"__honker_task__": {"task": "mail.send", "args": ["secret"], "kwargs": {}}})
    claimed(queue).ack()
    told = events(queue)
    assert [event.get("task") for event in told] == ["mail.send", "mail.send", None]
    assert "secret" not in str(told)


@pytest.mark.parametrize("payload", ["__honker_task__", {"__honker_task__": 1}, {"__honker_task__": {"task": 1}}])
def test_a_payload_that_only_looks_like_a_call_has_no_task(queue: brant.Queue, payload: object) -> None:
    queue.enqueue_many([payload])
    assert "task" not in events(queue)[0]


def test_a_job_that_is_put_off_tells_until_when(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue(1, delay=30)
    clock.advance(30)
    claimed(queue).retry(60, "later")
    assert [(event["event"], event.get("run_at")) for event in events(queue)] == [
        ("enqueued", 1_700_000_030),
        ("claimed", None),
        ("retried", 1_700_000_090),
    ]


def expire(queue: brant.Queue) -> None:
    queue.enqueue(1, expires=0)
    queue.sweep_expired()


def exhaust(queue: brant.Queue) -> None:
    queue.enqueue(1, max_attempts=0)
    queue.claim_one("w")


def fail(queue: brant.Queue) -> None:
    queue.enqueue(1)
    claimed(queue).fail("boom")


def spend_retries(queue: brant.Queue) -> None:
    queue.enqueue(1, max_attempts=1)
    claimed(queue).retry(0, "boom")


@pytest.mark.parametrize(
    ("death", "error"),
    [(expire, "expired"), (exhaust, "max attempts exceeded"), (fail, "boom"), (spend_retries, "boom")],
)
def test_every_death_is_told_with_its_reason(
    queue: brant.Queue, death: Callable[[brant.Queue], None], error: str
) -> None:
    death(queue)
    last = events(queue)[-1]
    assert (last["event"], last["error"]) == ("dead", error)
    assert names(queue).count("dead") == 1


def test_a_requeue_is_a_new_beginning(queue: brant.Queue) -> None:
    fail(queue)
    queue.requeue_dead()
    assert names(queue) == ["enqueued", "claimed", "dead", "enqueued"]


@pytest.mark.parametrize("how", ["cancel", "delete one", "delete all"])
def test_a_removal_is_told(queue: brant.Queue, how: str) -> None:
    job_id = queue.enqueue(1)
    match how:
        case "cancel":
            queue.cancel(job_id)
        case "delete one":
            queue.delete(message_id=job_id)
        case _:
            queue.delete()
    assert names(queue) == ["enqueued", "cancelled"]


def test_batches_tell_of_each_job_in_order(queue: brant.Queue) -> None:
    ids = queue.enqueue_many(range(3))
    queue.ack_batch([job.id for job in queue.claim_batch("w", 3)], "w")
    told = [(event["event"], event["job_id"]) for event in events(queue)]
    assert told == [(event, job_id) for event in ("enqueued", "claimed", "completed") for job_id in ids]


def test_what_was_refused_is_not_told(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1, unique_key="k")
    queue.enqueue(2, unique_key="k")
    claimed(queue)
    queue.ack(job_id, "other")
    queue.retry(job_id, "other", 0, "no")
    queue.fail(job_id, "other", "no")
    queue.cancel(42)
    assert names(queue) == ["enqueued", "claimed"]


@pytest.mark.guarantee("G1")
def test_an_event_commits_with_what_it_tells_of(queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), queue.db.transaction() as tx:
        queue.enqueue(1, tx=tx)
        raise ZeroDivisionError
    assert events(queue) == []


def test_recording_holds_in_every_database_of_the_file_until_switched_off(path: Path, queue: brant.Queue) -> None:
    with brant.open(path) as other:
        other.queue("q").enqueue(1)
        assert names(queue) == ["enqueued"]
        other.queue("q").record_events(False)
    queue.enqueue(2)
    assert names(queue) == ["enqueued"]


def test_other_queues_are_not_recorded(queue: brant.Queue) -> None:
    other = queue.db.queue("other")
    other.enqueue(1)
    claimed(other).fail()
    assert events(queue) == []


def test_events_resume_behind_an_offset(queue: brant.Queue) -> None:
    queue.enqueue_many(range(3))
    stream = queue.db.job_events()
    first, *rest = stream.read()
    assert stream.read(after=first.offset) == rest
