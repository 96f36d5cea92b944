"""The helpers for users' own tests of tasks: running inline, draining, what was called."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import brant
from brant import tasks
from brant.errors import InvalidValue, TransactionError
from brant.outcomes import Cancel, Dead, Retry, Snooze
from brant.testing import FakeClock, assert_enqueued, drain_tasks, pending_payloads, run_inline
from brant.worker import current_task


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_process_wide", tasks.Registry())


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


@pytest.fixture
def inline() -> Iterator[None]:
    with run_inline():
        yield


# run_inline


@pytest.mark.usefixtures("inline")
def test_inline_a_call_runs_at_once_and_enqueues_nothing(queue: brant.Queue) -> None:
    @queue.task()
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, b=2).get() == 3
    assert add.enqueue(3, 4, delay=60, priority=5).get(timeout=0) == 7
    assert pending_payloads(queue) == []


def test_after_the_block_a_call_enqueues_again(queue: brant.Queue) -> None:
    @queue.task()
    def note() -> None:
        pytest.fail("enqueued, not run")

    with pytest.raises(KeyError), run_inline():
        raise KeyError
    note()
    assert_enqueued(note, count=1)


@pytest.mark.usefixtures("inline")
def test_inline_arguments_and_answers_are_what_json_makes_of_them(queue: brant.Queue) -> None:
    seen: list[object] = []

    @queue.task()
    def pair(value: object) -> object:
        seen.append(value)
        return (value, value)

    assert pair((1, 2)).get() == [[1, 2], [1, 2]]
    assert seen == [[1, 2]]
    with pytest.raises(TypeError, match="not JSON"):
        pair(object())


@pytest.mark.usefixtures("inline")
def test_inline_wrong_arguments_are_refused(queue: brant.Queue) -> None:
    @queue.task()
    def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(TypeError, match="'b'"):
        add(1)  # type: ignore[call-arg]


@pytest.mark.usefixtures("inline")
def test_inline_an_async_task_runs_with_and_without_a_loop(queue: brant.Queue) -> None:
    @queue.task()
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    async def inside_a_loop() -> object:
        return await double(4).aget()

    assert double(3).get() == 6
    assert asyncio.run(inside_a_loop()) == 8


@pytest.mark.usefixtures("inline")
def test_inline_an_error_is_raised_by_the_call(queue: brant.Queue) -> None:
    @queue.task()
    def divide() -> float:
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        divide()


def test_inline_without_raising_an_error_is_the_answer(queue: brant.Queue) -> None:
    @queue.task()
    def divide() -> float:
        return 1 / 0

    with run_inline(raises=False):
        result = divide()
        with pytest.raises(brant.TaskFailed, match="division by zero") as caught:
            result.get()
    assert "Traceback" in (caught.value.error or "")
    assert caught.value.attempts == 1


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (Retry(5, "busy"), brant.TaskFailed),
        (Dead("never"), brant.TaskFailed),
        (Snooze(5), TimeoutError),
        (Cancel("moot"), TimeoutError),
        (brant.Retryable("busy"), brant.TaskFailed),
    ],
)
@pytest.mark.parametrize("raised", [True, False])
def test_inline_an_outcome_answers_as_a_worker_would(
    queue: brant.Queue, outcome: Exception, answer: type[Exception], raised: bool
) -> None:
    @queue.task()
    def decide() -> object:
        if raised or isinstance(outcome, brant.Retryable):
            raise outcome
        return outcome

    result = decide()
    with pytest.raises(answer):
        result.get()


@pytest.mark.usefixtures("inline")
def test_inline_a_task_without_a_stored_result_has_no_answer(queue: brant.Queue) -> None:
    @queue.task(store_result=False)
    def opaque() -> object:
        return object()

    with pytest.raises(InvalidValue, match="stores no result"):
        opaque().get()


@pytest.mark.usefixtures("inline")
def test_inline_the_context_is_there(queue: brant.Queue) -> None:
    @queue.task()
    def look() -> list[object]:
        task = current_task()
        with task.transaction() as tx:
            tx.execute("CREATE TABLE seen (n)")
        return [task.task, task.attempt, task.heartbeat(), task.cancelled]

    assert look().get() == [look.name, 1, True, False]
    assert queue.db.query("SELECT * FROM seen") == []


@pytest.mark.usefixtures("inline")
def test_inline_a_plain_function_that_hands_out_a_coroutine_is_awaited_as_by_a_worker(queue: brant.Queue) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return current_task().attempt

    @queue.task()
    def hand_out() -> Any:
        return answer()

    assert hand_out().get() == 1


@pytest.mark.usefixtures("inline")
def test_inline_a_task_has_one_transaction_as_in_a_worker(queue: brant.Queue) -> None:
    @queue.task()
    def twice() -> None:
        for _ in range(2):
            with current_task().transaction() as tx:
                tx.execute("CREATE TABLE IF NOT EXISTS mine (n)")

    with pytest.raises(TransactionError, match="one only"):
        twice()


@pytest.mark.usefixtures("inline")
def test_inline_a_failed_transaction_leaves_nothing_and_may_be_tried_again(queue: brant.Queue) -> None:
    @queue.task()
    def insist() -> list[dict[str, object]]:
        for fails in (True, False):
            with suppress(KeyError), current_task().transaction() as tx:
                tx.execute("CREATE TABLE mine (n)")
                if fails:
                    raise KeyError
        return queue.db.query("SELECT count(*) AS n FROM mine")

    assert insist().get() == [{"n": 0}]


@pytest.mark.usefixtures("inline")
def test_inline_a_task_may_call_another(queue: brant.Queue) -> None:
    @queue.task()
    def inner(n: int) -> int:
        return n + 1

    @queue.task()
    def outer(n: int) -> int:
        return inner(n).get() * 10

    assert outer(1).get() == 20


# drain_tasks


def test_drain_runs_what_is_due_and_what_it_enqueues(timed: brant.Database) -> None:
    ran: list[str] = []

    @timed.task("a")
    def first() -> None:
        ran.append("first")
        second()

    @timed.task("b")
    async def second() -> None:
        ran.append("second")
        third()

    @timed.task("a")
    def third() -> None:
        ran.append("third")

    first()
    third.enqueue(delay=60)
    assert drain_tasks(timed) == {"success": 3}
    assert ran == ["first", "second", "third"]
    assert_enqueued(third, count=1)


def test_drain_goes_by_priority_one_at_a_time(queue: brant.Queue) -> None:
    ran: list[int] = []

    @queue.task()
    async def note(n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0)
        ran.append(n)

    for n in (1, 2, 3):
        note.enqueue(n, priority=n)
    assert drain_tasks(queue.db, "q") == {"success": 3}
    assert ran == [3, 3, 2, 2, 1, 1]


def test_drain_leaves_other_queues_alone(timed: brant.Database) -> None:
    @timed.task("a")
    def here() -> int:
        return 1

    @timed.task("b")
    def there() -> int:
        return 2

    result = here()
    there()
    assert drain_tasks(timed, "a") == {"success": 1}
    assert result.get(timeout=0) == 1
    assert_enqueued(there, count=1)


def test_drain_retries_by_the_workers_rules_until_the_task_is_dead(queue: brant.Queue, clock: FakeClock) -> None:
    @queue.task(retries=2, retry_delay_s=30, retry_jitter=0)
    def broken() -> None:
        raise ValueError("no address")

    result = broken()
    assert drain_tasks(queue.db) == {"retry": 1}
    assert drain_tasks(queue.db) == {}, "not due before its delay is over"
    clock.advance(30)
    assert drain_tasks(queue.db) == {"dead": 1}
    with pytest.raises(brant.TaskFailed, match="no address"):
        result.get(timeout=0)


def test_drain_tells_each_outcome(queue: brant.Queue) -> None:
    outcomes = {"retry": Retry(60), "snooze": Snooze(60), "cancel": Cancel(), "dead": Dead("never"), "success": 1}

    @queue.task()
    def decide(which: str) -> object:
        return outcomes[which]

    for which in outcomes:
        decide(which)
    queue.enqueue({"raw": True})
    assert drain_tasks(queue.db) == {"retry": 1, "snooze": 1, "cancel": 1, "dead": 2, "success": 1}


def test_drain_of_nothing_runs_nothing(queue: brant.Queue) -> None:
    assert drain_tasks(queue.db, "q") == {}


def test_drain_without_any_task_is_a_mistake_that_is_told(timed: brant.Database) -> None:
    with pytest.raises(InvalidValue, match="no tasks to drain"):
        drain_tasks(timed)


def test_drain_leaves_the_queues_of_other_databases_unopened(timed: brant.Database, tmp_path: Path) -> None:
    with brant.open(tmp_path / "other.db") as other:

        @other.task("elsewhere")
        def note() -> None: ...

        assert drain_tasks(timed) == {}
    assert timed.queue("elsewhere", max_attempts=9).max_attempts == 9


def test_drain_gives_up_on_a_task_that_enqueues_itself(queue: brant.Queue) -> None:
    @queue.task()
    def again() -> None:
        again()

    again()
    with pytest.raises(AssertionError, match="enqueue itself"):
        drain_tasks(queue.db, limit=5)


def test_drain_of_exactly_as_many_tasks_as_the_limit_is_no_failure(queue: brant.Queue) -> None:
    @queue.task()
    def note(n: int) -> None: ...

    for n in range(5):
        note(n)
    assert drain_tasks(queue.db, limit=5) == {"success": 5}


def test_drain_inside_a_loop_says_what_to_do(queue: brant.Queue) -> None:
    @queue.task()
    def note() -> None: ...

    async def inside() -> dict[str, int]:
        note()
        with pytest.raises(InvalidValue, match="to_thread"):
            drain_tasks(queue.db)
        return await asyncio.to_thread(drain_tasks, queue.db)

    assert asyncio.run(inside()) == {"success": 1}


# assert_enqueued


def test_assert_enqueued_knows_the_calls_of_a_task(queue: brant.Queue) -> None:
    @queue.task()
    def send(to: str, copies: object = 1) -> None: ...

    @queue.task()
    def other() -> None: ...

    send("a", copies=(1, 2))
    send("b")
    send("b")
    other()
    queue.enqueue("raw")
    assert_enqueued(send)
    assert_enqueued(send, count=3)
    assert_enqueued(send, args=["a"])
    assert_enqueued(send, args=("a",), kwargs={"copies": (1, 2)}, count=1)
    assert_enqueued(send, kwargs={}, count=2)
    assert_enqueued(send, args=["c"], count=0)


def test_assert_enqueued_of_a_task_fails_and_shows_its_calls(queue: brant.Queue) -> None:
    @queue.task(name="send")
    def send(to: str) -> None: ...

    @queue.task(name="other")
    def other() -> None: ...

    other()
    with pytest.raises(AssertionError, match="has not got a call of send; it holds \\[\\]"):
        assert_enqueued(send)
    send(to="a")
    with pytest.raises(AssertionError, match=r"a call of send, args \['a'\]") as caught:
        assert_enqueued(send, args=["a"])
    assert "{'to': 'a'}" in str(caught.value)
    with pytest.raises(AssertionError, match="1 times, not 2"):
        assert_enqueued(send, count=2)
