"""Iterating over claims in a thread: what wakes it, what ends it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.errors import DatabaseBusy, DatabaseClosed
from tests.waiting import PATIENCE_S, ObservedClock, in_thread, line_of, python, quick_switches, write_lock_held

pytestmark = pytest.mark.both_backends


@pytest.fixture
def observed() -> ObservedClock:
    return ObservedClock()


@pytest.fixture
def queue(path: Path, observed: ObservedClock) -> Iterator[brant.Queue]:
    with brant.open(path, clock=observed) as db:
        yield db.queue("q", visibility_timeout_s=10)


def test_for_gives_the_jobs_that_are_due_in_order(queue: brant.Queue) -> None:
    queue.enqueue("second")
    queue.enqueue("first", priority=1)
    payloads = []
    for job in queue.claim("w"):
        payloads.append(job.payload)
        job.ack()
        if len(payloads) == 2:
            break
    assert payloads == ["first", "second"]


def test_jobs_are_claimed_one_at_a_time(queue: brant.Queue) -> None:
    queue.enqueue_many(range(3))
    claims = queue.claim("w")
    next(claims)
    assert queue.stats().processing == 1
    claims.close()


def test_claims_without_a_worker_id_get_one_of_their_own(queue: brant.Queue) -> None:
    queue.enqueue_many([1, 2])
    one, other = queue.claim(), queue.claim()
    assert next(one).worker_id == one.worker_id != other.worker_id
    for claims in (one, other):
        claims.close()


@pytest.mark.guarantee("G9")
def test_a_commit_of_this_process_wakes_it(queue: brant.Queue, observed: ObservedClock) -> None:
    claims = queue.claim("w", idle_poll_s=None)
    waiting = in_thread(next, claims)
    observed.wait_for_looks(1, each=2)
    queue.enqueue("wake")
    assert waiting.result(PATIENCE_S).payload == "wake"
    claims.close()


@pytest.mark.guarantee("G9")
def test_a_commit_between_construction_and_the_first_step_is_not_missed(queue: brant.Queue) -> None:
    with queue.claim("w", idle_poll_s=None) as claims:
        queue.enqueue(1)
        assert in_thread(next, claims).result(PATIENCE_S).payload == 1


@pytest.mark.guarantee("G9")
def test_a_commit_of_another_database_of_the_file_wakes_it(
    path: Path, queue: brant.Queue, observed: ObservedClock
) -> None:
    claims = queue.claim("w", idle_poll_s=None)
    waiting = in_thread(next, claims)
    observed.wait_for_looks(1, each=2)
    with brant.open(path, clock=observed) as other:
        other.queue("q").enqueue("from the other")
        assert waiting.result(PATIENCE_S).payload == "from the other"
    claims.close()


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("watcher", ["kernel", "poll"])
@pytest.mark.files_only("a server tells of what Brant wrote, or its SQL functions")
def test_plain_sql_on_another_connection_wakes_it(path: Path, watcher: str) -> None:
    clock = ObservedClock()
    with brant.open(path, watcher_backend=watcher, clock=clock) as db:
        claims = db.queue("q").claim("w", idle_poll_s=None)
        waiting = in_thread(next, claims)
        clock.wait_for_looks(1, each=2)
        plain = sqlite3.connect(path)
        with plain:
            plain.execute("INSERT INTO _honker_live (queue, payload, run_at) VALUES ('q', '\"plain\"', 0)")
        plain.close()
        assert waiting.result(PATIENCE_S).payload == "plain"
        claims.close()


WAITER = """
import sys, brant
with brant.open(sys.argv[1]) as db, db.queue("q").claim("child", idle_poll_s=60) as claims:
    print("waits", flush=True)
    for job in claims:
        job.ack()
        print(job.payload, flush=True)
"""
ENQUEUER = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    db.queue("q").enqueue("from the child")
    print("committed", flush=True)
"""


@pytest.mark.guarantee("G9")
def test_a_waiter_in_another_process_is_woken_by_each_commit(db: brant.Database) -> None:
    with python(WAITER, db.path) as process:
        assert line_of(process) == "waits"
        for number in range(20):
            db.queue("q").enqueue(number)
            assert line_of(process) == str(number)


@pytest.mark.guarantee("G9")
def test_a_commit_of_another_process_wakes_this_one(db: brant.Database) -> None:
    claims = db.queue("q").claim("w", idle_poll_s=60)
    waiting = in_thread(next, claims)
    with python(ENQUEUER, db.path) as process:
        assert line_of(process) == "committed"
        assert waiting.result(PATIENCE_S).payload == "from the child"
    claims.close()


def test_a_delayed_job_wakes_it_when_it_is_due(queue: brant.Queue, observed: ObservedClock) -> None:
    queue.enqueue(1, delay=3600)
    claims = queue.claim("w", idle_poll_s=None)
    waiting = in_thread(next, claims)
    observed.wait_for_looks(1, each=2)
    before = observed.looks()
    observed.advance(3599)
    observed.wait_for_looks(1, since=before)
    assert not waiting.done()
    observed.advance(1)
    assert waiting.result(PATIENCE_S).payload == 1
    claims.close()


def test_a_lapsed_lease_wakes_it(queue: brant.Queue, observed: ObservedClock) -> None:
    queue.enqueue(1)
    queue.claim_one("crasher")
    claims = queue.claim("w", idle_poll_s=None)
    waiting = in_thread(next, claims)
    observed.wait_for_looks(1, each=2)
    observed.advance(11)
    job = waiting.result(PATIENCE_S)
    assert (job.payload, job.attempts) == (1, 2)
    claims.close()


@pytest.mark.parametrize("delay", [0.3, 1])
def test_real_time_wakes_it_for_a_delayed_job(db: brant.Database, delay: float) -> None:
    queue = db.queue("q")
    queue.enqueue(1, delay=delay)
    with queue.claim("w", idle_poll_s=60) as claims:
        assert in_thread(next, claims).result(PATIENCE_S).payload == 1


def test_real_time_wakes_it_for_a_lapsed_lease(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    queue.claim_one("crasher", lease_s=0.3)
    with queue.claim("w", idle_poll_s=60) as claims:
        assert in_thread(next, claims).result(PATIENCE_S).attempts == 2


@pytest.mark.parametrize("doomed", [{"max_attempts": 0}, {"expires": 0.1}], ids=["exhausted", "expired"])
def test_after_a_deadline_that_brought_nothing_real_time_wakes_it_for_the_next_one(
    db: brant.Database, doomed: dict[str, float]
) -> None:
    queue = db.queue("q")
    queue.enqueue("never runs", delay=0.2, **doomed)  # type: ignore[arg-type]
    queue.enqueue("next", delay=0.4)
    with queue.claim("w", idle_poll_s=60) as claims:
        assert in_thread(next, claims).result(PATIENCE_S).payload == "next"


def test_the_end_of_a_fractional_lease_wakes_it(queue: brant.Queue, observed: ObservedClock) -> None:
    queue.enqueue(1)
    queue.claim_one("crasher", lease_s=0.5)
    claims = queue.claim("w", idle_poll_s=None)
    waiting = in_thread(next, claims)
    observed.wait_for_looks(1, each=2)
    observed.advance(0.5)
    assert not waiting.done()
    observed.advance(0.01)
    assert waiting.result(PATIENCE_S).attempts == 2
    claims.close()


def test_close_from_another_thread_ends_it(queue: brant.Queue, observed: ObservedClock) -> None:
    claims = queue.claim("w", idle_poll_s=None)
    waiting = in_thread(list, claims)
    observed.wait_for_looks(1, each=2)
    claims.close()
    assert waiting.result(PATIENCE_S) == []


def test_a_closed_iteration_stays_closed_and_claims_nothing(queue: brant.Queue) -> None:
    queue.enqueue(1)
    claims = queue.claim("w")
    claims.close()
    claims.close()
    assert list(claims) == []
    assert queue.stats().pending == 1


def take_one(claims: Iterator[brant.Job], start: threading.Barrier) -> brant.Job | None:
    start.wait()
    return next(claims, None)


def test_when_close_comes_at_once_a_job_is_handed_out_or_given_back(queue: brant.Queue) -> None:
    with quick_switches():
        for number in range(200):
            queue.enqueue(number)
            claims = queue.claim("w")
            start = threading.Barrier(2)
            taking = in_thread(take_one, claims, start)
            start.wait()
            claims.close()
            handed_out = taking.result(PATIENCE_S) is not None
            assert (queue.stats().processing, queue.stats().pending) == (handed_out, not handed_out)
            queue.delete()


def test_closing_the_database_ends_a_waiter_with_an_error(path: Path) -> None:
    clock = ObservedClock()
    db = brant.open(path, clock=clock)
    waiting = in_thread(next, db.queue("q").claim("w", idle_poll_s=None))
    clock.wait_for_looks(1, each=2)
    db.close()
    with pytest.raises(DatabaseClosed):
        waiting.result(PATIENCE_S)


def test_a_busy_database_is_an_error_after_which_the_iteration_goes_on(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=0) as db:
        db.queue("q").enqueue(1)
        claims = db.queue("q").claim("w")
        with write_lock_held(path), pytest.raises(DatabaseBusy):
            next(claims)
        assert next(claims).payload == 1
        claims.close()


def test_dropping_an_iteration_without_closing_it_is_harmless(queue: brant.Queue) -> None:
    queue.enqueue_many([1, 2])
    for _ in queue.claim("w"):
        break
    assert next(queue.claim("w")).payload == 2
