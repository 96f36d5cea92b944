"""Work that a task leaves for its ack: in the transaction of all that end together, each undone alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import TransactionError
from brant.worker import current_task
from tests.plainly import note_transactions
from tests.waiting import PATIENCE_S
from tests.worker.observing import RunningWorker, running
from tests.worker.together import Together

pytestmark = pytest.mark.both_backends

JOBS = 12
Tx = brant.Transaction


@pytest.fixture(autouse=True)
def _ledger(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE ledger (number BIGINT)")


def note(tx: Tx, number: int) -> None:
    tx.query("INSERT INTO ledger VALUES (?) RETURNING number", [number])


def ledger(db: brant.Database) -> list[int]:
    return [row["number"] for row in db.query("SELECT number FROM ledger ORDER BY number")]


@contextmanager
def ending_together(
    db: brant.Database, path: Path, function: Callable[[int], Any], **options: Any
) -> Iterator[RunningWorker]:
    together = Together(db, path, function, JOBS, **options)
    with running(db, slots=JOBS) as crew:
        together.end(crew)
        yield crew


@pytest.mark.parametrize("make", ["thread", "loop"])
def test_what_it_writes_is_there_with_the_result_and_the_job_is_gone(db: brant.Database, make: str) -> None:
    def leave(number: int) -> str:
        current_task().at_ack(lambda tx: note(tx, current_task().job_id))
        return "done"

    async def leave_on_loop(number: int) -> str:
        return leave(number)

    call = db.task("q", name="leave", store_result=True)(leave if make == "thread" else leave_on_loop)(1)
    with running(db) as crew:
        assert call.get(PATIENCE_S) == "done"
        crew.wait("success")
    assert ledger(db) == [call.id]
    assert db.queue("q").stats().total == 0


def test_those_that_end_together_share_few_commits(db: brant.Database, path: Path) -> None:
    begins = note_transactions(db)

    def leave(number: int) -> None:
        current_task().at_ack(lambda tx: note(tx, number))

    with ending_together(db, path, leave) as crew:
        crew.wait("start", JOBS)
        before = len(begins)
        crew.wait("success", JOBS)
        assert len(begins) - before < JOBS
    assert ledger(db) == list(range(JOBS))


def test_one_that_fails_is_undone_alone_and_tried_again(db: brant.Database, path: Path) -> None:
    def leave(number: int) -> None:
        attempt = current_task().attempt

        def work(tx: Tx) -> None:
            note(tx, number)
            if number % 3 == 0 and attempt == 1:
                raise ValueError("no luck")

        current_task().at_ack(work)

    with ending_together(db, path, leave, retry_delay_s=0, retries=3) as crew:
        crew.wait("success", JOBS)
        told = [event.error or "" for event in crew.heard.all("retry")]
    assert ledger(db) == list(range(JOBS))
    assert len(told) == JOBS // 3
    assert all(text.startswith("no luck\n") and "Traceback" in text for text in told)


def test_an_error_may_be_answered_in_the_same_commit(db: brant.Database, path: Path) -> None:
    def leave(number: int) -> None:
        task = current_task()

        def work(tx: Tx) -> None:
            note(tx, number)
            raise ValueError("no luck")

        def on_error(tx: Tx, error: BaseException) -> None:
            note(tx, -number)
            if number % 2:
                task.job.fail(f"{error}, number {number}", tx=tx)

        task.at_ack(work, on_error)

    with ending_together(db, path, leave, retries=2, retry_delay_s=3600) as crew:
        dead = crew.wait("dead", JOBS // 2)
        crew.wait("retry", JOBS // 2)
    assert min(event.error or "" for event in dead) == "no luck, number 1"
    assert ledger(db) == [-number for number in reversed(range(JOBS))]
    assert (db.queue("q").stats().dead, db.queue("q").stats().pending) == (JOBS // 2, JOBS // 2)


def test_where_the_claim_is_lost_nothing_is_written(db: brant.Database) -> None:
    def leave(number: int) -> None:
        task = current_task()

        def work(tx: Tx) -> None:
            note(tx, number)
            if number:
                raise ValueError("no luck")

        task.at_ack(work, lambda tx, _: note(tx, -number))
        assert task.job.queue.cancel(task.job_id)

    calls = db.task("q", name="leave")(leave)
    calls(0)
    calls(1)
    with running(db, slots=1) as crew:
        crew.wait("lost", 2)
    assert ledger(db) == []


def test_one_that_ends_the_transaction_of_all_costs_the_others_nothing(db: brant.Database, path: Path) -> None:
    def leave(number: int) -> None:
        def work(tx: Tx) -> None:
            note(tx, number)
            if number == 5:
                tx.execute("ROLLBACK")

        current_task().at_ack(work)

    with ending_together(db, path, leave, retries=1) as crew:
        crew.wait("success", JOBS - 1)
        crew.wait("dead")
    assert ledger(db) == [number for number in range(JOBS) if number != 5]


def test_what_a_function_left_before_it_failed_is_not_done(db: brant.Database) -> None:
    def leave() -> None:
        current_task().at_ack(lambda tx: note(tx, 1))
        raise ValueError("after all")

    db.task("q", name="leave", retries=1)(leave)()
    with running(db) as crew:
        crew.wait("dead")
    assert ledger(db) == []


def test_a_task_leaves_one_work_and_has_no_transaction_besides(db: brant.Database) -> None:
    said: list[str] = []

    def leave() -> None:
        task = current_task()
        task.at_ack(lambda tx: note(tx, 1))
        for again in (lambda: task.at_ack(lambda tx: note(tx, 2)), lambda: task.transaction().__enter__()):
            with pytest.raises(TransactionError, match="has left its work") as refused:
                again()
            said.append(str(refused.value))

    db.task("q", name="leave")(leave)()
    with running(db) as crew:
        crew.wait("success")
    assert (ledger(db), len(said)) == ([1], 2)
