"""Decorated functions: a call enqueues, a worker runs it, the caller gets its answer."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.tasks import registry
from brant.testing import FakeClock, pending_payloads
from brant.worker import current_task
from tests.plainly import plain_connection
from tests.waiting import PATIENCE_S
from tests.worker.observing import running

pytestmark = pytest.mark.both_backends


def add(a: int, b: int = 1) -> int:
    return a + b


async def add_later(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


class Adder:
    def __call__(self, a: int, b: int = 1) -> int:
        return a + b


class LateAdder:
    async def __call__(self, a: int, b: int = 1) -> int:
        await asyncio.sleep(0)
        return a + b


def hand_out(a: int, b: int = 1) -> Any:
    return add_later(a, b)


@pytest.mark.parametrize(
    "function",
    [add, add_later, Adder(), LateAdder(), functools.partial(add_later), hand_out],
    ids=["plain", "async", "object", "async object", "partial", "returns an awaitable"],
)
def test_a_call_is_run_by_a_worker_and_answers(db: brant.Database, function: Any) -> None:
    task = db.queue("q").task("sum")(function)
    with running(db):
        assert task(2, b=3).get(PATIENCE_S) == 5
        assert asyncio.run(task(7).aget(PATIENCE_S)) == 8
    assert db.queue("q").stats().total == 0


def test_a_call_runs_nothing_by_itself(db: brant.Database) -> None:
    ran: list[str] = []
    task = db.queue("q").task(ran.append)
    task("x")
    assert ran == []
    assert pending_payloads(db.queue("q")) == [{"__honker_task__": {"task": task.name, "args": ["x"], "kwargs": {}}}]
    task.call_local("y")
    assert ran == ["y"]


def test_the_decorator_works_bare_and_with_options_and_from_the_database(db: brant.Database) -> None:
    q = db.queue("q")
    assert q.task(add).name == f"{__name__}.add"
    assert q.task()(add_later).name == f"{__name__}.add_later"
    assert q.task(name="third", priority=7)(Adder()).spec.priority == 7
    assert q.task(Adder()).name == f"{__name__}.Adder"
    assert db.task("other", name="fifth")(hand_out).spec.queue_name == "other"
    assert registry().queues() == ["other", "q"]
    assert registry().names() == sorted(
        ["fifth", "third", f"{__name__}.Adder", f"{__name__}.add", f"{__name__}.add_later"]
    )


def test_a_name_belongs_to_one_function(db: brant.Database) -> None:
    q = db.queue("q")
    q.task("sum")(add)
    q.task("sum", retries=5)(add)
    with pytest.raises(ValueError, match="duplicate task name"):
        q.task("sum")(add_later)
    spec = registry().get("sum")
    assert spec is not None
    assert (spec.fn, spec.retries) == (add, 5)


@pytest.mark.parametrize("wrong", [{"retries": 0}, {"timeout_s": 0}, {"retry_backoff": 0.5}, {"retry_delay_s": -1}])
def test_options_that_make_no_sense_are_refused_where_they_stand(db: brant.Database, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        db.queue("q").task(**wrong)(add)
    assert registry().names() == []


def test_wrong_arguments_fail_at_the_call(db: brant.Database) -> None:
    task: Any = db.queue("q").task(add)
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"c": 2}), ((object(),), {})):
        with pytest.raises(TypeError):
            task(*args, **kwargs)
    assert db.queue("q").stats().total == 0


def test_a_parameter_named_as_an_option_is_refused(db: brant.Database) -> None:
    with pytest.raises(ValueError, match="delay"):
        db.queue("q").task(lambda delay: delay)


def test_enqueue_takes_the_options_of_a_job(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")
    task = q.task("sum", priority=1, expires_s=50)(add)
    plain = q.get_job(task(1).id)
    special = q.get_job(task.enqueue(1, b=2, delay=30, priority=9, expires=90).id)
    assert plain is not None
    assert special is not None
    now = int(clock.now())
    assert (plain["priority"], plain["run_at"], plain["expires_at"]) == (1, now, now + 50)
    assert (special["priority"], special["run_at"], special["expires_at"]) == (9, now + 30, now + 90)
    assert special["payload"] == '{"__honker_task__": {"task": "sum", "args": [1], "kwargs": {"b": 2}}}'


def test_a_call_commits_with_the_callers_transaction(db: brant.Database, path: Path) -> None:
    q = db.queue("q")
    task = q.task(add)
    with pytest.raises(LookupError), db.transaction() as tx:
        task.enqueue(1, tx=tx)
        raise LookupError
    assert q.stats().total == 0
    with plain_connection(path) as own:
        task.enqueue(2, tx=own.tx)
        assert q.stats().total == 0
        own.commit()
    assert q.stats().total == 1


def test_a_unique_key_answers_with_the_job_that_is_there(db: brant.Database) -> None:
    q = db.queue("q")
    by_argument = q.task("sum", unique_key=lambda a, b=1: f"sum-{a}")(add)
    assert by_argument(1).id == by_argument(1, b=5).id != by_argument(2).id
    fixed = q.task("other", unique_key="one")(add_later)
    assert fixed(1).id == fixed(2).id != fixed.enqueue(3, unique_key="two").id
    assert q.stats().total == 4


def test_retries_counts_all_attempts_whatever_the_queue_says(db: brant.Database) -> None:
    q = db.queue("many", max_attempts=10)
    ran: list[int] = []

    @q.task(retries=2, retry_delay_s=0)
    def breaks() -> None:
        ran.append(current_task().attempt)
        raise ValueError("no good")

    answer = breaks()
    row = q.get_job(answer.id)
    assert row is not None
    assert row["max_attempts"] == 2
    with running(db, "many"), pytest.raises(brant.TaskFailed, match="no good") as failed:
        answer.get(PATIENCE_S)
    assert ran == [1, 2]
    assert failed.value.attempts == 2
    assert failed.value.error is not None
    assert failed.value.error.startswith("no good\nTraceback")
    assert "in breaks" in failed.value.error


def test_one_attempt_is_one_run(db: brant.Database) -> None:
    ran = []

    @db.queue("q").task(retries=1)
    async def breaks() -> None:
        ran.append(1)
        raise LookupError

    with running(db) as crew:
        with pytest.raises(brant.TaskFailed, match="LookupError"):
            _ = asyncio.run(breaks().aget(PATIENCE_S))
        assert [event.kind for event in crew.wait("dead")] == ["dead"]
    assert ran == [1]


def test_an_answer_that_does_not_come_is_a_timeout(db: brant.Database) -> None:
    answer = db.queue("q").task(add)(1)
    with pytest.raises(TimeoutError):
        answer.get(0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(answer.aget(0.01))


def test_a_task_without_results_stores_none_and_says_so(db: brant.Database) -> None:
    answer = db.queue("q").task(store_result=False)(add)(1)
    with running(db) as crew:
        crew.wait("success")
    assert db.queue("q").get_result(answer.id) == (False, None)
    with pytest.raises(ValueError, match="store_result"):
        answer.get(1)
    with pytest.raises(ValueError, match="store_result"):
        asyncio.run(answer.aget(1))


def test_results_are_kept_for_their_time(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")
    answer = q.task(result_ttl_s=60)(add)(1)
    with running(timed):
        assert answer.get(PATIENCE_S) == 2
    clock.advance(59)
    assert q.get_result(answer.id) == (True, 2)
    clock.advance(2)
    assert q.get_result(answer.id) == (False, None)


def test_delays_grow_by_the_backoff_up_to_the_longest(db: brant.Database) -> None:
    spec = db.queue("q").task(retry_delay_s=10, retry_backoff=3, retry_jitter=0, max_retry_delay_s=100)(add).spec
    assert [spec.delay_after(attempt) for attempt in (1, 2, 3, 4, 2000)] == [10, 30, 90, 100, 100]
    spread = db.queue("q").task("b", retry_delay_s=100, retry_backoff=1, retry_jitter=0.5)(add).spec
    delays = {spread.delay_after(1) for _ in range(200)}
    assert min(delays) >= 50
    assert max(delays) <= 150
    assert len(delays) > 10
