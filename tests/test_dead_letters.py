"""Dead letters: listing, looking, requeueing, purging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import brant
from brant.testing import FakeClock, pending_payloads

pytestmark = pytest.mark.both_backends


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


def bury(queue: brant.Queue, *payloads: object, **options: Any) -> list[int]:
    ids = queue.enqueue_many(payloads, **options)
    for job in queue.claim_batch("w", len(ids)):
        job.fail(f"no {job.payload}")
    return ids


def test_a_dead_letter_tells_everything(queue: brant.Queue, clock: FakeClock) -> None:
    job_id = queue.enqueue({"n": 1}, priority=4, max_attempts=7)
    job = queue.claim_one("w")
    assert job is not None
    clock.advance(2)
    job.fail("boom")
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert vars(dead) == {
        "id": job_id,
        "queue": "q",
        "payload_text": '{"n": 1}',
        "priority": 4,
        "run_at": 1_700_000_000,
        "attempts": 1,
        "max_attempts": 7,
        "last_error": "boom",
        "created_at": 1_700_000_000,
        "died_at": 1_700_000_002,
    }
    assert dead.payload == {"n": 1}


def test_dead_letters_are_listed_by_id_in_pages(queue: brant.Queue) -> None:
    ids = bury(queue, *range(7))
    first = queue.list_dead(limit=4)
    assert [dead.id for dead in first] == ids[:4]
    assert [dead.id for dead in queue.list_dead(limit=4, after=first[-1].id)] == ids[4:]
    assert queue.list_dead(after=ids[-1]) == []


def test_a_queue_shows_its_own_dead_letters_only(queue: brant.Queue) -> None:
    [mine] = bury(queue, 1)
    other = queue.db.queue("other")
    assert other.list_dead() == []
    assert other.get_dead(mine) is None
    assert other.requeue_dead(mine) == 0
    assert other.requeue_dead() == 0
    assert other.purge_dead() == 0
    assert queue.get_dead(mine) is not None


def test_live_and_unknown_jobs_are_no_dead_letters(queue: brant.Queue) -> None:
    live = queue.enqueue(1)
    assert queue.get_dead(live) is None
    assert queue.get_dead(42) is None
    assert queue.requeue_dead(live) == 0
    assert queue.requeue_dead(42) == 0


def test_a_requeued_letter_is_due_now_under_its_old_id_with_all_attempts(queue: brant.Queue, clock: FakeClock) -> None:
    [job_id] = bury(queue, "again", priority=3, max_attempts=2)
    clock.advance(100)
    assert queue.requeue_dead(job_id) == 1
    assert queue.get_dead(job_id) is None
    row = queue.get_job(job_id)
    assert row is not None
    wanted = {"state": "pending", "attempts": 0, "max_attempts": 2, "priority": 3, "run_at": 1_700_000_100}
    assert {name: row[name] for name in wanted} == wanted
    job = queue.claim_one("w")
    assert job is not None
    assert (job.id, job.payload, job.attempts) == (job_id, "again", 1)


def test_a_letter_that_was_given_back_before_is_requeued_with_the_attempts_that_it_was_enqueued_with(
    queue: brant.Queue,
) -> None:
    job_id = queue.enqueue(1, max_attempts=2)
    for _ in range(20):
        job = queue.claim_one("w")
        assert job is not None
        job.release()
    queue.requeue_dead(failed_until_dead(queue, job_id))
    row = queue.get_job(job_id)
    assert row is not None
    assert (row["attempts"], row["max_attempts"]) == (0, 2)
    failed_until_dead(queue, job_id)
    assert len(queue.errors(job_id)) == 4


def failed_until_dead(queue: brant.Queue, job_id: int) -> int:
    while (job := queue.claim_one("w")) is not None:
        assert job.id == job_id
        job.retry(0, "why")
    return job_id


def test_the_errors_of_a_requeued_letter_are_kept(queue: brant.Queue) -> None:
    [job_id] = bury(queue, 1)
    queue.requeue_dead(job_id)
    assert [error.error for error in queue.errors(job_id)] == ["no 1"]
    job = queue.claim_one("w")
    assert job is not None
    job.fail("again")
    assert [error.error for error in queue.errors(job_id)] == ["no 1", "again"]


def test_a_letter_that_never_had_an_attempt_gets_one_when_it_is_requeued(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1, max_attempts=0)
    assert queue.claim_one("w") is None
    assert queue.requeue_dead(job_id) == 1
    job = queue.claim_one("w")
    assert job is not None
    assert job.max_attempts == 1


def test_a_letter_that_expired_runs_after_it_is_requeued(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1, expires=0)
    queue.sweep_expired()
    assert queue.requeue_dead(job_id) == 1
    assert queue.claim_one("w") is not None


def test_all_letters_are_requeued_at_once(queue: brant.Queue) -> None:
    ids = bury(queue, *range(2_500))
    assert queue.requeue_dead() == 2_500
    assert queue.stats().dead == 0
    assert [job.id for job in queue.claim_batch("w", 3_000)] == ids
    assert queue.requeue_dead() == 0


def test_purging_deletes_for_good(queue: brant.Queue) -> None:
    [job_id, _] = bury(queue, 1, 2)
    assert queue.purge_dead() == 2
    assert (queue.list_dead(), queue.errors(job_id), pending_payloads(queue)) == ([], [], [])
    assert queue.db.query("SELECT count(*) AS n FROM _brant_attempts") == [{"n": 0}]
    assert queue.purge_dead() == 0


def test_purging_by_age_keeps_the_younger_ones(queue: brant.Queue, clock: FakeClock) -> None:
    bury(queue, "old")
    clock.advance(60)
    bury(queue, "young")
    clock.advance(30)
    assert queue.purge_dead(older_than_s=90) == 0
    assert queue.purge_dead(older_than_s=31) == 1
    assert [dead.payload for dead in queue.list_dead()] == ["young"]


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("verb", ["requeue_dead", "purge_dead", "sweep_expired"])
def test_a_change_of_dead_letters_rolls_back_with_its_transaction(queue: brant.Queue, verb: str) -> None:
    bury(queue, 1)
    queue.enqueue("expired", expires=0)
    before = queue.stats()
    with pytest.raises(ZeroDivisionError), queue.db.transaction() as tx:
        assert getattr(queue, verb)(tx=tx) == 1
        raise ZeroDivisionError
    assert queue.stats() == before


@pytest.mark.guarantee("G2")
def test_every_job_is_live_or_dead_with_a_reason_until_it_is_done(queue: brant.Queue, clock: FakeClock) -> None:
    ids = {
        queue.enqueue("exhausted", max_attempts=0),
        queue.enqueue("expired", expires=1),
        queue.enqueue("crashed", max_attempts=1),
        queue.enqueue("waits", delay=9_999),
    }
    queue.claim_one("crasher", lease_s=5)
    clock.advance(60)
    queue.sweep_expired()
    while queue.claim_one("w", lease_s=1):
        clock.advance(60)
    live = {row["id"] for row in queue.db.query("SELECT id FROM _honker_live")}
    dead = {letter.id: letter.last_error for letter in queue.list_dead()}
    assert live | set(dead) == ids
    assert not live & set(dead)
    assert all(dead.values())


BAD_CALLS: dict[str, Callable[[brant.Queue], object]] = {
    "limit 0": lambda queue: queue.list_dead(limit=0),
    "limit text": lambda queue: queue.list_dead(limit="5"),  # type: ignore[arg-type]
    "limit none": lambda queue: queue.list_dead(limit=None),  # type: ignore[arg-type]
    "after text": lambda queue: queue.list_dead(after="5"),  # type: ignore[arg-type]
    "after none": lambda queue: queue.list_dead(after=None),  # type: ignore[arg-type]
    "job_id text": lambda queue: queue.requeue_dead("5"),  # type: ignore[arg-type]
    "older_than_s negative": lambda queue: queue.purge_dead(-1),
    "older_than_s nan": lambda queue: queue.purge_dead(float("nan")),
    "older_than_s text": lambda queue: queue.purge_dead("5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", BAD_CALLS)
@pytest.mark.guarantee("G19")
def test_bad_arguments_are_refused_by_name_and_no_letter_is_touched(queue: brant.Queue, call: str) -> None:
    bury(queue, 1)
    with pytest.raises(brant.InvalidValue, match=call.split()[0]):
        BAD_CALLS[call](queue)
    assert queue.stats().dead == 1
