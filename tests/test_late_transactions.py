"""A job's transaction that begins when it is first used."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from brant.errors import ClaimLost
from tests.waiting import PATIENCE_S, in_thread


def claimed(queue: brant.Queue) -> brant.Job:
    queue.enqueue("work")
    job = queue.claim_one("w")
    assert job is not None
    return job


@pytest.fixture
def queue(db: brant.Database) -> brant.Queue:
    return db.queue("q")


@pytest.fixture(autouse=True)
def _table(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE kept (n INTEGER)")


def test_until_it_is_used_others_may_write(queue: brant.Queue, path: Path) -> None:
    job = claimed(queue)
    with job.transaction(late=True) as tx:
        begun = [tx.has_begun]
        with brant.open(path, busy_timeout_ms=0) as other, other.transaction() as theirs:
            theirs.execute("INSERT INTO kept VALUES (1)")
        tx.execute("INSERT INTO kept VALUES (2)")
        begun.append(tx.has_begun)
    assert begun == [False, True]
    assert len(queue.db.query("SELECT * FROM kept")) == 2
    assert queue.get_job(job.id) is None


def test_one_that_is_never_used_acks_all_the_same(queue: brant.Queue) -> None:
    job = claimed(queue)
    with job.transaction(late=True):
        pass
    assert queue.get_job(job.id) is None


def test_an_error_before_it_is_used_leaves_the_job(queue: brant.Queue) -> None:
    job = claimed(queue)
    with pytest.raises(ZeroDivisionError), job.transaction(late=True):
        raise ZeroDivisionError
    assert queue.get_job(job.id) is not None


@pytest.mark.guarantee("G3")
def test_what_was_written_is_rolled_back_when_the_claim_is_lost(queue: brant.Queue) -> None:
    job = claimed(queue)
    with pytest.raises(ClaimLost), job.transaction(late=True) as tx:
        queue.cancel(job.id)
        tx.execute("INSERT INTO kept VALUES (1)")
    assert queue.db.query("SELECT * FROM kept") == []


def test_it_belongs_to_the_thread_that_entered_it(queue: brant.Queue) -> None:
    job = claimed(queue)
    with job.transaction(late=True) as tx:
        with pytest.raises(brant.BrantError, match="another thread"):
            in_thread(tx.execute, "INSERT INTO kept VALUES (1)").result(PATIENCE_S)
        tx.execute("INSERT INTO kept VALUES (2)")
    assert queue.db.query("SELECT n FROM kept") == [{"n": 2}]


def test_after_its_block_it_can_not_be_used(queue: brant.Queue) -> None:
    with claimed(queue).transaction(late=True) as tx:
        pass
    with pytest.raises(brant.BrantError, match="inside its `with` block"):
        tx.execute("INSERT INTO kept VALUES (1)")
