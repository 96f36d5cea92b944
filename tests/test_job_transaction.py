"""job.transaction(): the handler's writes and the ack commit together, or neither does."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import brant
from brant.errors import TransactionError
from brant.testing import FakeClock
from tests.waiting import line_of, python

pytestmark = [pytest.mark.both_backends, pytest.mark.guarantee("G3")]


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    with timed.transaction() as tx:
        tx.execute("CREATE TABLE effects (n INTEGER)")
    queue = timed.queue("q", visibility_timeout_s=10)
    queue.enqueue(1)
    return queue


def claimed(queue: brant.Queue) -> brant.Job:
    job = queue.claim_one("w")
    assert job is not None
    return job


def effects(db: brant.Database) -> int:
    count: int = db.query("SELECT count(*) AS n FROM effects")[0]["n"]
    return count


def test_the_writes_and_the_ack_commit_together(queue: brant.Queue) -> None:
    job = claimed(queue)
    with job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
        assert queue.get_job(job.id) is not None
    assert effects(queue.db) == 1
    assert queue.get_job(job.id) is None


def test_an_exception_undoes_the_writes_and_leaves_the_claim(queue: brant.Queue) -> None:
    job = claimed(queue)
    with pytest.raises(ZeroDivisionError), job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
        raise ZeroDivisionError
    assert effects(queue.db) == 0
    assert job.retry(0, "again")


@pytest.mark.parametrize("loss", ["lapsed", "taken over", "taken over by a namesake", "cancelled"])
def test_a_lost_claim_raises_and_undoes_the_writes(queue: brant.Queue, clock: FakeClock, loss: str) -> None:
    job = claimed(queue)
    if loss == "cancelled":
        queue.cancel(job.id)
    else:
        clock.advance(11)
    if loss.startswith("taken over"):
        assert queue.claim_one("w" if "namesake" in loss else "other") is not None
    with pytest.raises(brant.ClaimLost, match=str(job.id)), job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
    assert effects(queue.db) == 0


def test_a_lease_that_ends_inside_the_block_undoes_the_writes(queue: brant.Queue, clock: FakeClock) -> None:
    job = claimed(queue)
    with pytest.raises(brant.ClaimLost), job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
        clock.advance(11)
    assert effects(queue.db) == 0
    with claimed(queue).transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
    assert effects(queue.db) == 1


def test_the_database_is_usable_after_a_lost_claim(queue: brant.Queue) -> None:
    job = claimed(queue)
    queue.cancel(job.id)
    with pytest.raises(brant.ClaimLost), job.transaction():
        pass
    queue.enqueue("next")
    assert claimed(queue).payload == "next"


def test_jobs_and_results_written_in_the_block_commit_with_the_ack(queue: brant.Queue) -> None:
    job = claimed(queue)
    with job.transaction() as tx:
        queue.enqueue("follow-up", tx=tx)
        queue.save_result(job.id, "done", tx=tx)
    assert claimed(queue).payload == "follow-up"
    assert queue.get_result(job.id) == (True, "done")


def test_a_second_transaction_of_a_done_job_is_refused(queue: brant.Queue) -> None:
    job = claimed(queue)
    with job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
    with pytest.raises(brant.ClaimLost), job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
    assert effects(queue.db) == 1


def test_it_does_not_nest_in_another_transaction(queue: brant.Queue) -> None:
    job = claimed(queue)
    with queue.db.transaction(), pytest.raises(TransactionError, match="nested"), job.transaction():
        pass
    assert job.ack()


CRASH = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    job = db.queue("q", visibility_timeout_s=0).claim_one("crasher")
    with job.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (1)")
        if sys.argv[2] == "before":
            print("ready", flush=True)
            sys.stdin.readline()
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_killed_before_or_after_the_commit_leaves_the_effect_once(path: Path, moment: str) -> None:
    with brant.open(path) as db:
        with db.transaction() as tx:
            tx.execute("CREATE TABLE effects (n INTEGER)")
        queue = db.queue("q")
        queue.enqueue(1)
        with python(CRASH, path, moment) as process:
            assert line_of(process) == "ready"
            process.kill()
            assert process.wait() == -signal.SIGKILL
        claims = queue.claim("w")
        if moment == "before":
            with next(claims).transaction() as tx:
                tx.execute("INSERT INTO effects VALUES (1)")
        claims.close()
        assert effects(db) == 1
        assert queue.stats().total == 0
