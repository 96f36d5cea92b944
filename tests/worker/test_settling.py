"""Settling: what ended together in one commit, each job by its own claim; and threads that are used again."""

from __future__ import annotations

import contextvars
import threading
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.outcomes import Retry
from tests.plainly import note_transactions, refusing
from tests.waiting import PATIENCE_S
from tests.worker.observing import running
from tests.worker.together import Together

pytestmark = pytest.mark.both_backends

JOBS = 12


def test_jobs_that_end_together_are_settled_in_few_commits(db: brant.Database, path: Path) -> None:
    together = Together(db, path, lambda number: number, JOBS)
    with running(db, slots=JOBS) as crew:
        crew.wait("start", JOBS)
        begins = note_transactions(db)
        together.end(crew)
        assert [call.get(PATIENCE_S) for call in together.calls] == list(range(JOBS))
        crew.wait("success", JOBS)
        # Those that ended before the first commit began, and those that ended meanwhile; besides, claims in vain.
        assert len(begins) < JOBS
    assert db.queue("q").stats().total == 0


def test_a_result_that_the_database_refuses_holds_up_no_other(db: brant.Database, path: Path) -> None:
    together = Together(db, path, [1, "too long" * 10_000, 3, 4].__getitem__, 4)
    with running(db, slots=4) as crew:
        crew.wait("start", 4)
        with refusing(db, "BEFORE INSERT", "_honker_results", "too long", "length(NEW.value) > 40000"):
            together.end(crew)
            assert [together.calls[number].get(PATIENCE_S) for number in (0, 2, 3)] == [1, 3, 4]
            assert {event.job_id for event in crew.wait("trouble")} == {together.calls[1].id}
            assert len(crew.wait("success", 3)) == 3
        assert together.calls[1].get(PATIENCE_S) == "too long" * 10_000
    assert len(crew.heard.all("start")) == 4


def test_an_error_of_the_workers_own_is_told_once_and_the_worker_goes_on(
    db: brant.Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together(db, path, [1, 2].__getitem__, 2)
    with running(db, slots=2) as crew:
        crew.wait("start", 2)
        with monkeypatch.context() as patched:
            patched.setattr(db, "transaction", lambda: len(None))  # type: ignore[arg-type]
            together.end(crew)
            assert {event.job_id for event in crew.wait("trouble", 2)} == {call.id for call in together.calls}
        assert together.task(0).get(PATIENCE_S) == 1
        assert len(crew.heard.all("trouble")) == 2


def test_an_outcome_that_makes_no_sense_holds_up_no_other(db: brant.Database, path: Path) -> None:
    together = Together(db, path, [1, Retry(float("nan")), 3].__getitem__, 3)
    with running(db, slots=3) as crew:
        together.end(crew)
        assert [together.calls[number].get(PATIENCE_S) for number in (0, 2)] == [1, 3]
        (event,) = crew.wait("retry")
    assert event.job_id == together.calls[1].id
    assert "bad Retry" in str(event.error)


def test_a_claim_that_was_lost_costs_the_others_of_its_commit_nothing(db: brant.Database, path: Path) -> None:
    together = Together(db, path, ["a", "b", "c"].__getitem__, 3)
    with running(db, slots=3) as crew:
        crew.wait("start", 3)
        # Under the feet of the worker, which finds out when it settles.
        with db.transaction() as tx:
            tx.execute("UPDATE _honker_live SET worker_id = 'another' WHERE id = ?", [together.calls[1].id])
        together.end(crew)
        assert [together.calls[number].get(PATIENCE_S) for number in (0, 2)] == ["a", "c"]
        assert [event.job_id for event in crew.wait("lost")] == [together.calls[1].id]
    assert db.queue("q").get_result(together.calls[1].id) == (False, None)


def test_plain_functions_share_as_many_threads_as_there_are_slots(db: brant.Database) -> None:
    threads: set[threading.Thread] = set()
    task = db.queue("q").task("note", store_result=False)(lambda: threads.add(threading.current_thread()))
    for _ in range(40):
        task()
    with running(db, slots=2) as crew:
        crew.wait("success", 40)
    assert 1 <= len(threads) <= 2
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_function_sees_no_variable_that_one_before_it_in_its_thread_has_set(db: brant.Database) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    q = db.queue("q")

    @q.task
    def swap(value: str) -> str:
        before = variable.get()
        variable.set(value)
        return before

    with running(db, slots=1):
        assert [swap(value).get(PATIENCE_S) for value in ("a", "b")] == ["unset", "unset"]


@pytest.mark.parametrize("value", ["in a thread", "on the loop"])
def test_a_function_sees_the_variables_of_whoever_runs_the_worker(db: brant.Database, value: str) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    q = db.queue("q")

    async def on_loop() -> str:
        return variable.get()

    functions: dict[str, Any] = {"in a thread": lambda: variable.get(), "on the loop": on_loop}
    answer = q.task("look")(functions[value])()
    variable.set(value)
    db.run_workers_sync("q", 1, drain=True, scheduler=False)
    assert answer.get(PATIENCE_S) == value


class Unreadable(brant.Retryable):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_error_that_cannot_be_read_costs_one_attempt_and_no_slot(db: brant.Database, kind: str) -> None:
    def plain() -> None:
        raise Unreadable("never seen", delay_s=1000)

    async def on_loop() -> None:
        plain()

    q = db.queue("q")
    functions: dict[str, Any] = {"plain": plain, "async": on_loop}
    q.task("fail")(functions[kind])()
    with running(db, slots=1) as crew:
        (event,) = crew.wait("retry")
        assert "no text" in str(event.error)
        assert q.task("next")(lambda: "has the slot")().get(PATIENCE_S) == "has the slot"
