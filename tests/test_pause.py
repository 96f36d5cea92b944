"""A paused queue hands out nothing until it is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, ObservedClock, in_thread, line_of, python

pytestmark = [pytest.mark.both_backends, pytest.mark.guarantee("G20")]


def test_a_paused_queue_hands_out_nothing(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    assert queue.pause()
    assert queue.claim_one("w") is None
    assert queue.claim_batch("w", 10) == []
    assert queue.read() is None
    assert queue.read_many(10) == []
    assert queue.stats().pending == 1


def test_a_resumed_queue_goes_on_where_it_stopped(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.pause()
    queue.enqueue_many([1, 2])
    queue.resume()
    assert [job.payload for job in queue.claim_batch("w", 10)] == [1, 2]


def test_pause_and_resume_tell_whether_they_changed_anything(db: brant.Database) -> None:
    queue = db.queue("q")
    assert not queue.is_paused()
    assert not queue.resume()
    assert queue.pause()
    assert queue.is_paused()
    assert not queue.pause()
    assert queue.resume()
    assert not queue.is_paused()
    assert not queue.resume()


def test_other_queues_are_not_paused(db: brant.Database) -> None:
    db.queue("other").enqueue(1)
    db.queue("q").pause()
    assert db.queue("other").claim_one("w") is not None
    assert not db.queue("other").is_paused()


def test_what_was_claimed_before_the_pause_may_be_settled(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(3))
    acked, retried, failed = queue.claim_batch("w", 3)
    queue.pause()
    assert acked.heartbeat()
    assert acked.ack()
    assert retried.retry(0, "again")
    assert failed.fail("no")
    assert queue.claim_one("w") is None


def test_a_lapsed_lease_is_not_handed_out_by_a_paused_queue(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", visibility_timeout_s=5)
    queue.enqueue(1)
    queue.claim_one("crasher")
    queue.pause()
    clock.advance(60)
    assert queue.claim_one("w") is None
    queue.resume()
    job = queue.claim_one("w")
    assert job is not None
    assert job.attempts == 2


def test_a_pause_holds_in_another_database_of_the_file_and_after_reopening(path: Path) -> None:
    with brant.open(path) as one, brant.open(path) as other:
        one.queue("q").enqueue(1)
        one.queue("q").pause()
        assert other.queue("q").claim_one("w") is None
    with brant.open(path) as later:
        assert later.queue("q").is_paused()
        assert later.queue("q").claim_one("w") is None


CLAIM_ONE = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    for _ in sys.stdin:
        print(db.queue("q").claim_one("other") is not None, flush=True)
"""


def test_a_pause_and_a_resume_hold_in_another_process(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    with python(CLAIM_ONE, db.path) as process:
        assert process.stdin is not None
        answers = []
        for change in (queue.pause, queue.resume):
            change()
            process.stdin.write("\n")
            process.stdin.flush()
            answers.append(line_of(process))
    assert answers == ["False", "True"]


def test_a_worker_that_waits_is_stopped_by_a_pause_and_woken_by_the_resume(path: Path) -> None:
    clock = ObservedClock()
    with brant.open(path, clock=clock) as db:
        queue = db.queue("q")
        queue.pause()
        claims = queue.claim("w", idle_poll_s=None)
        waiting = in_thread(next, claims)
        clock.wait_for_looks(1, each=2)
        before = clock.looks()
        queue.enqueue(1)
        clock.wait_for_looks(1, since=before)
        assert not waiting.done()
        queue.resume()
        assert waiting.result(PATIENCE_S).payload == 1
        claims.close()


@pytest.mark.guarantee("G1")
def test_a_pause_commits_with_its_transaction(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        queue.pause(tx=tx)
        raise ZeroDivisionError
    assert not queue.is_paused()
    assert queue.claim_one("w") is not None
