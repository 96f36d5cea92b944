"""Acks and claims in one commit, and threads that settle what they have run: nothing is held up or left behind."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import pytest

import brant
from brant.tasks import TaskSpec
from brant.worker import WorkerEvent
from brant.worker.events import Observers
from tests.plainly import note_transactions, refusing
from tests.waiting import PATIENCE_S
from tests.worker.observing import running, start

JOBS = 40


def test_a_job_is_acked_and_the_next_one_claimed_in_one_commit(db: brant.Database) -> None:
    task = db.queue("q").task("note")(lambda: 1)
    calls = [task() for _ in range(JOBS)]
    begun = note_transactions(db)
    with running(db, slots=1):
        assert calls[-1].get(PATIENCE_S) == 1
    # One for each job, one for the first claim, and a few that find nothing more or that renew.
    assert JOBS < len(begun) < 1.5 * JOBS


def test_a_claim_that_fails_spoils_no_ack(db: brant.Database) -> None:
    q = db.queue("q")
    no_claims = ExitStack()

    @q.task
    def break_claims() -> str:
        no_claims.enter_context(
            refusing(db, "BEFORE UPDATE OF state", "_honker_live", "no claims today", "NEW.state = 'processing'")
        )
        return "done"

    first, second = break_claims(), q.task("second")(lambda: "done too")()
    with running(db, slots=1) as crew:
        assert first.get(PATIENCE_S) == "done"
        assert "no claims today" in str(crew.wait("trouble")[0].error)
        no_claims.close()
        assert second.get(PATIENCE_S) == "done too"
    assert [event.attempt for event in crew.heard.all("start")] == [1, 1]


@pytest.mark.both_backends
def test_a_short_function_is_settled_while_a_long_one_runs(db: brant.Database) -> None:
    q, go = db.queue("q"), threading.Event()
    short = q.task("short")(lambda: "short")
    long = q.task("long")(lambda: go.wait(PATIENCE_S))
    for _ in range(10):
        calls: list[Any] = [short(), long(), short()]
        with running(db, slots=3, grace_s=PATIENCE_S):
            assert [calls[place].get(PATIENCE_S) for place in (0, 2)] == ["short", "short"]
            go.set()
            assert calls[1].get(PATIENCE_S) is True
        go.clear()


@pytest.mark.both_backends
@pytest.mark.parametrize("slots", [1, 3])
def test_a_worker_that_is_stopped_while_it_is_busy_leaves_no_claim_behind(db: brant.Database, slots: int) -> None:
    q = db.queue("q")
    task = q.task("quick")(lambda: 1)
    for done in range(1, 16):
        for _ in range(20):
            task()
        crew = start(db, slots=slots, grace_s=PATIENCE_S)
        crew.wait("success", done)
        crew.stop()
        assert q.stats().processing == 0
        assert len(crew.heard.all("start")) == len(crew.heard.all("success"))


SIGNATURES = (
    lambda: 0,
    lambda a: a,
    lambda a, b=1: a,
    lambda a, /, b=1: a,
    lambda *a: a,
    lambda a, *more: a,
    lambda *, key: key,
    lambda a, *, key=1: a,
    lambda a, **rest: a,
)


@pytest.mark.parametrize("function", SIGNATURES, ids=range(len(SIGNATURES)))
@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("words", [{}, {"a": 1}, {"key": 1}, {"b": 2}], ids=str)
def test_arguments_are_refused_just_where_python_refuses_them(
    function: object, count: int, words: dict[str, int]
) -> None:
    assert callable(function)
    spec = TaskSpec("t", function, "q")
    try:
        function(*range(count), **words)
    except TypeError:
        with pytest.raises(TypeError):
            spec.check(range(count), words)
    else:
        spec.check(range(count), words)


def test_what_no_observer_wants_is_not_made() -> None:
    class Picky:
        wanted_kinds = frozenset({"dead"})

        def __call__(self, event: WorkerEvent) -> None: ...

    picky = Observers((Picky(), Picky()))
    assert [picky.want(kind) for kind in ("dead", "start", "trouble")] == [True, False, True]
    assert Observers((Picky(), lambda event: None)).want("start")
