"""A job that is due for too long gets its turn, whatever its priority."""

from __future__ import annotations

from typing import Any

import pytest

import brant
from brant.limit import Limit
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends


def claimed(queue: brant.Queue, count: int) -> list[Any]:
    """Payloads, one claim after the other."""
    return [job.payload for _ in range(count) if (job := queue.claim_one("w", 10_000))]


@pytest.mark.guarantee("G24")
def test_every_fourth_claim_is_the_one_due_longest_once_it_has_waited_too_long(
    timed: brant.Database, clock: FakeClock
) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(["old"] * 5)
    clock.advance(301)
    queue.enqueue_many(["new"] * 20, priority=9)
    assert claimed(queue, 12) == ["new", "new", "new", "old"] * 3


def test_priorities_alone_rule_until_then(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(["old"] * 5)
    clock.advance(300)
    queue.enqueue_many(["new"] * 12, priority=9)
    assert claimed(queue, 12) == ["new"] * 12


def test_a_batch_has_its_share_of_them(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", max_wait_s=10)
    queue.enqueue_many(["old"] * 50)
    clock.advance(11)
    queue.enqueue_many(["new"] * 50, priority=9)
    batches = [[job.payload for job in queue.claim_batch("w", 6, 10_000)] for _ in range(4)]
    assert [batch.count("old") for batch in batches] == [1, 2, 1, 2]


def test_it_can_be_switched_off(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", max_wait_s=None)
    queue.enqueue("old")
    clock.advance(10**6)
    queue.enqueue_many(["new"] * 12, priority=9)
    assert claimed(queue, 12) == ["new"] * 12


def test_a_job_waits_from_the_time_that_it_is_due(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    queue.enqueue("later", delay=1000)
    clock.advance(1100)
    queue.enqueue_many(["new"] * 8, priority=9)
    assert claimed(queue, 8) == ["new"] * 8


def test_a_job_that_its_limit_holds_back_gets_its_turn_too(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    one = Limit("k", max_running=1)
    queue.enqueue("old", limit=one)
    seen = []
    for _ in range(20):
        queue.enqueue_many(["new"] * 2, limit=one, priority=9)
        clock.advance(31)
        for job in queue.claim_batch("w", 1):
            assert queue.claim_batch("w", 1) == []
            seen.append(job.payload)
            job.ack()
    assert "old" not in seen[:8]
    assert "old" in seen[8:14]


def test_the_limits_hold_for_it(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", max_wait_s=0)
    queue.enqueue_many(range(8), limit=Limit("k", max_running=1))
    clock.advance(1)
    assert len([job for _ in range(8) for job in queue.claim_batch("w", 4, 10_000)]) == 1


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("wait", [-1, "5", float("nan")])
def test_a_bad_wait_is_refused(timed: brant.Database, wait: Any) -> None:
    with pytest.raises(brant.InvalidValue, match="max_wait_s must be a 0 or more number of seconds"):
        timed.queue("q", max_wait_s=wait)


def test_the_wait_is_fixed_by_the_first_call(timed: brant.Database) -> None:
    queue = timed.queue("q", max_wait_s=None)
    assert timed.queue("q") is timed.queue("q", max_wait_s=None) is queue
    with pytest.raises(brant.InvalidValue, match="max_wait_s=None; pass the same"):
        timed.queue("q", max_wait_s=300)
