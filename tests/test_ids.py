"""Ids of jobs: the time in microseconds, growing in the order of the commits."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, in_thread, line_of, python

pytestmark = pytest.mark.guarantee("G6")


def test_an_id_is_the_time_in_microseconds(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    clock.advance(0.25)
    assert queue.enqueue(1) == 1_700_000_000_250_000


def test_an_id_in_real_time_lies_between_before_and_after(db: brant.Database) -> None:
    before = time.time_ns() // 1000
    job_id = db.queue("q").enqueue(1)
    assert before <= job_id <= time.time_ns() // 1000
    assert job_id < 2**53


def test_ids_of_one_moment_count_on(timed: brant.Database) -> None:
    queue = timed.queue("q")
    ids = [queue.enqueue(1), *queue.enqueue_many([2, 3]), timed.queue("other").enqueue(4)]
    assert ids == [1_700_000_000_000_000 + number for number in range(4)]


def test_a_clock_that_steps_back_repeats_no_id(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    first = queue.enqueue(1)
    clock.step_wall(-3600)
    assert queue.enqueue(2) == first + 1
    assert queue.enqueue_many([3, 4]) == [first + 2, first + 3]


def test_an_id_is_not_given_again_when_the_newest_job_is_gone(timed: brant.Database) -> None:
    queue = timed.queue("q")
    first = queue.enqueue(1)
    queue.cancel(first)
    assert queue.enqueue(2) == first + 1


def test_a_rolled_back_transaction_leaves_ids_growing(timed: brant.Database) -> None:
    queue = timed.queue("q")
    first = queue.enqueue(1)
    with pytest.raises(ZeroDivisionError), timed.transaction() as tx:
        queue.enqueue(2, tx=tx)
        raise ZeroDivisionError
    assert queue.enqueue(3) > first


@pytest.mark.guarantee("G17")
def test_a_row_of_plain_sql_continues_and_is_continued(timed: brant.Database) -> None:
    queue = timed.queue("q")
    first = queue.enqueue(1)
    with timed.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload, run_at) VALUES ('q', '2', 0)")
        [row] = tx.query("SELECT max(id) AS id FROM _honker_live")
    assert row["id"] == first + 1
    assert queue.enqueue(3) == first + 2


def test_a_job_keeps_its_id_through_retries_death_and_requeueing(timed: brant.Database) -> None:
    queue = timed.queue("q")
    job_id = queue.enqueue(1)
    for end in ("retry", "fail"):
        job = queue.claim_one("w")
        assert job is not None
        assert job.id == job_id
        getattr(job, end)(**({"delay_s": 0} if end == "retry" else {}))
    queue.requeue_dead()
    job = queue.claim_one("w")
    assert job is not None
    assert job.id == job_id


def test_threads_get_ids_in_the_order_of_their_commits(db: brant.Database) -> None:
    queue = db.queue("q")
    threads = [in_thread(lambda: [queue.enqueue(1) for _ in range(50)]) for _ in range(4)]
    ids = [job_id for thread in threads for job_id in thread.result(PATIENCE_S)]
    assert len(set(ids)) == 200
    assert sorted(ids) == [row["id"] for row in db.query("SELECT id FROM _honker_live ORDER BY rowid")]


ENQUEUE = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    for _ in sys.stdin:
        print(db.queue("q").enqueue(1), flush=True)
"""


def test_two_processes_in_turn_get_growing_ids(db: brant.Database) -> None:
    queue = db.queue("q")
    ids: list[int] = []
    with python(ENQUEUE, db.path) as process:
        assert process.stdin is not None
        for _ in range(20):
            ids.append(queue.enqueue(1))
            process.stdin.write("\n")
            process.stdin.flush()
            ids.append(int(line_of(process)))
    assert all(earlier < later for earlier, later in pairwise(ids))
