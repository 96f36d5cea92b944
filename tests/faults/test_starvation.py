"""Endless work of a high priority: what is of a low one still gets its turn, and no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, in_thread, line_of, python

FEEDS = """
import sys
import brant

queue = brant.open(sys.argv[1]).queue("q")
commits = queue.db.update_events()
while True:
    if queue.stats().pending < 1000:
        queue.enqueue_many(["urgent"] * 1000, priority=9)
        print("fed", flush=True)
    else:
        commits.wait(0.2)
"""


@pytest.mark.guarantee("G24")
def test_a_job_of_a_low_priority_waits_for_no_more_than_four_claims_beyond_the_bound(
    timed: brant.Database, clock: FakeClock
) -> None:
    queue = timed.queue("q", max_wait_s=300)
    began = clock.now()
    queue.enqueue("low")
    claimed: list[object] = []
    while "low" not in claimed and len(claimed) < 1000:
        queue.enqueue_many(["urgent"] * 2, priority=9)
        clock.advance(5)
        for job in queue.claim_batch("w", 1):
            claimed.append(job.payload)
            job.ack()
    assert 300 < clock.now() - began <= 300 + 4 * 5


def test_without_a_bound_it_would_wait_for_ever(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q", max_wait_s=None)
    queue.enqueue("low")
    for _ in range(200):
        queue.enqueue_many(["urgent"] * 2, priority=9)
        job = queue.claim_one("w")
        assert job is not None
        assert job.payload == "urgent"
        job.ack()
        clock.advance(5)


def test_priorities_rule_three_of_four_claims_however_many_have_waited_too_long(
    timed: brant.Database, clock: FakeClock
) -> None:
    queue = timed.queue("q", max_wait_s=10)
    queue.enqueue_many(["low"] * 1000)
    clock.advance(11)
    queue.enqueue_many(["urgent"] * 1000, priority=9)
    claimed = [job.payload for _ in range(50) for job in queue.claim_batch("w", 8)]
    assert (claimed.count("urgent"), claimed.count("low")) == (300, 100)


def test_a_process_that_never_stops_feeding_starves_nobody(path: Path) -> None:
    with brant.open(path) as db, python(FEEDS, path) as feeder:
        assert line_of(feeder) == "fed"
        queue = db.queue("q", max_wait_s=0.5)
        low = queue.enqueue("low")
        jobs = queue.claim("w")

        def jobs_before_low() -> int:
            for count, job in enumerate(jobs):
                job.ack()
                if job.id == low:
                    return count
            raise AssertionError("the jobs came to an end")

        assert in_thread(jobs_before_low).result(PATIENCE_S) > 0
        jobs.close()
