"""Tasks with limits: so many at once, or so many in a span of time, over all workers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import brant
from brant.limit import Limit
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends


def keys(queue: brant.Queue) -> list[str]:
    return [limit.key for limit in queue.limits()]


@pytest.mark.guarantee("G23")
def test_no_more_calls_of_a_task_run_at_once_than_its_limit(db: brant.Database) -> None:
    queue = db.queue("q")
    running: list[int] = []
    most = 0

    @queue.task(limit=Limit(max_running=2))
    async def count() -> None:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        await asyncio.sleep(0.01)
        running.pop()

    results = [count() for _ in range(12)]
    assert keys(queue) == [count.name]
    db.run_workers_sync("q", concurrency=8, drain=True, scheduler=False)
    assert [result.get(timeout=0) for result in results] == [None] * 12
    assert most == 2


@pytest.mark.guarantee("G23")
def test_a_limit_can_be_made_of_the_arguments(db: brant.Database) -> None:
    queue = db.queue("q")

    @queue.task(limit=lambda user_id, **_: Limit(f"user:{user_id}", max_running=1))
    def greet(user_id: int, text: str = "") -> None: ...

    for user_id in (1, 1, 2, 2, 3):
        greet(user_id, text="hi")
    assert keys(queue) == ["user:1", "user:2", "user:3"]
    assert len(queue.claim_batch("w", 10)) == 3


def test_a_key_that_is_named_is_shared_by_tasks(db: brant.Database) -> None:
    queue = db.queue("q")

    @queue.task(limit=Limit("api", max_running=1))
    def one() -> None: ...

    @queue.task(limit=Limit("api", max_running=1))
    def two() -> None: ...

    one()
    two()
    assert len(queue.claim_batch("w", 5)) == 1


def test_a_drained_queue_leaves_what_its_rate_holds_back(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("q")
    ran = []

    @queue.task(limit=Limit(max_starts=3, per_s=60))
    def call(number: int) -> None:
        ran.append(number)

    for number in range(5):
        call(number)
    timed.run_workers_sync("q", concurrency=4, drain=True, scheduler=False)
    assert sorted(ran) == [0, 1, 2]
    clock.advance(60)
    timed.run_workers_sync("q", concurrency=4, drain=True, scheduler=False)
    assert sorted(ran) == [0, 1, 2, 3, 4]


def test_a_task_may_have_an_argument_called_limit(db: brant.Database) -> None:
    @db.queue("q").task(limit=Limit(max_running=1))
    def page(limit: int) -> int:
        return limit

    result = page(limit=5)
    db.run_workers_sync("q", drain=True, scheduler=False)
    assert result.get(timeout=0) == 5


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("bad", [5, "two", {"max_running": 1}])
def test_what_is_no_limit_is_refused(db: brant.Database, bad: Any) -> None:
    with pytest.raises(brant.InvalidValue, match=r"must be a brant\.limit\.Limit"):

        @db.queue("q").task(limit=bad)
        def task() -> None: ...


@pytest.mark.guarantee("G19")
def test_a_function_that_makes_no_limit_is_refused_at_the_call(db: brant.Database) -> None:
    @db.queue("q").task(limit=lambda: "none")  # type: ignore[arg-type, return-value]
    def task() -> None: ...

    with pytest.raises(brant.InvalidValue, match=r"must be a brant\.limit\.Limit"):
        task()
    assert db.queue("q").stats().pending == 0


@pytest.mark.guarantee("G19")
def test_a_periodic_task_takes_no_limit(db: brant.Database) -> None:
    with pytest.raises(brant.InvalidValue, match="takes no limit"):

        @db.queue("q").periodic_task("0 6 * * *", limit=Limit(max_running=1))
        def daily() -> None: ...

    assert db.scheduler().list() == []
