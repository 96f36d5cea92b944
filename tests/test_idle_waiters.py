"""What waiting costs: a wake-up for nothing reads, and writes nothing; wake-ups do not pile up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from tests.waiting import PATIENCE_S, ObservedClock, in_thread, write_lock_held

WAITERS = 8


@pytest.fixture
def observed() -> ObservedClock:
    return ObservedClock()


@pytest.fixture
def impatient(path: Path, observed: ObservedClock) -> Iterator[brant.Database]:
    """A database in which any write under a foreign lock fails at once."""
    with brant.open(path, clock=observed, busy_timeout_ms=0) as db:
        yield db


@pytest.mark.guarantee("G8")
def test_idle_workers_that_wake_for_nothing_do_not_touch_the_write_lock(
    path: Path, impatient: brant.Database, observed: ObservedClock
) -> None:
    queue = impatient.queue("q")
    waiting = []
    for _ in range(WAITERS):
        waiting.append(in_thread(next, queue.claim(idle_poll_s=None)))
        observed.wait_for_looks(len(waiting), each=3)
    with write_lock_held(path):
        for _ in range(2):
            before = observed.looks()
            observed.advance(1)
            observed.wait_for_looks(WAITERS, since=before)
        assert not any(waiter.done() for waiter in waiting)
    queue.enqueue_many(range(WAITERS))
    assert sorted(waiter.result(PATIENCE_S).payload for waiter in waiting) == list(range(WAITERS))


@pytest.mark.guarantee("G8")
def test_idle_workers_commit_nothing_after_unrelated_commits(
    path: Path, impatient: brant.Database, observed: ObservedClock
) -> None:
    claims = [impatient.queue("q").claim(idle_poll_s=None) for _ in range(WAITERS)]
    waiting = []
    for claim in claims:
        waiting.append(in_thread(next, claim))
        observed.wait_for_looks(len(waiting), each=3)
    outside = sqlite3.connect(path, isolation_level=None)
    before_commits = outside.execute("PRAGMA data_version").fetchone()
    for _ in range(3):
        before = observed.looks()
        outside.execute("INSERT INTO _honker_live (queue, payload) VALUES ('unrelated', '1')")
        observed.wait_for_looks(WAITERS, since=before)
    assert outside.execute("PRAGMA data_version").fetchone() == before_commits
    assert not any(waiter.done() for waiter in waiting)
    outside.close()
    for claim in claims:
        claim.close()


@pytest.mark.guarantee("G8")
def test_a_worker_back_from_a_job_looks_once_after_many_unrelated_commits(
    impatient: brant.Database, observed: ObservedClock
) -> None:
    queue, unrelated = impatient.queue("q"), impatient.queue("unrelated")
    queue.enqueue("first")
    claims = queue.claim(idle_poll_s=None)
    in_thread(next, claims).result(PATIENCE_S)
    for number in range(200):
        unrelated.enqueue(number)
    before = observed.looks()
    waiting = in_thread(next, claims)
    observed.wait_for_looks(1, each=3, since=before)
    queue.enqueue("second")
    assert waiting.result(PATIENCE_S).payload == "second"
    assert sum((observed.looks() - before).values()) < 20
    claims.close()
