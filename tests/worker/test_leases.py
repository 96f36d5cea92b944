"""Leases, time limits and cancelling: one copy of a job at a time, and only its holder settles it."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock
from brant.worker import bench, current_task
from brant.worker.claiming import Claim
from tests.waiting import PATIENCE_S, in_thread, python, write_lock_held
from tests.worker.observing import running, start

pytestmark = pytest.mark.both_backends

LEASE_S = 0.3


@pytest.fixture
def q(db: brant.Database) -> brant.Queue:
    return db.queue("q", visibility_timeout_s=LEASE_S)


@pytest.mark.parametrize("kind", ["a thread", "a coroutine", "a coroutine that blocks the loop"])
def test_a_job_of_ten_times_its_lease_runs_once(db: brant.Database, q: brant.Queue, kind: str) -> None:
    starts: list[int] = []
    until = time.monotonic() + 10 * LEASE_S

    def plain() -> str:
        starts.append(1)
        time.sleep(max(0, until - time.monotonic()))
        return "done"

    async def on_loop() -> str:
        starts.append(1)
        await asyncio.sleep(until - time.monotonic())
        return "done"

    async def blocking() -> str:
        return plain()

    functions = {"a thread": plain, "a coroutine": on_loop, "a coroutine that blocks the loop": blocking}
    answer = q.task("long")(functions[kind])()
    with running(db) as one, brant.open(db.path) as other_db:
        other_db.queue("q", visibility_timeout_s=LEASE_S)
        with running(other_db) as other:
            assert answer.get(PATIENCE_S) == "done"
            assert len(one.heard.all("renew") + other.heard.all("renew")) >= 10
    assert starts == [1]


def test_moving_time_renews_too(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q", visibility_timeout_s=60)
    go = threading.Event()
    answer = q.task("wait")(lambda: go.wait(PATIENCE_S))()
    with running(timed) as crew:
        crew.wait("start")
        for renewals in range(1, 10):
            clock.advance(20)
            crew.wait("renew", renewals)
        go.set()
        assert answer.get(PATIENCE_S) is True
        assert len(crew.wait("start")) == 1


def test_a_claim_that_waited_for_longer_than_a_lease_is_not_lost(
    db: brant.Database, q: brant.Queue, path: Path
) -> None:
    async def work() -> None:
        await asyncio.sleep(LEASE_S)

    answer = q.task("work")(work)()
    with write_lock_held(path):
        crew = start(db)
        threading.Event().wait(2 * LEASE_S)  # a claim waits for the lock meanwhile
    crew.wait("success")
    crew.stop()
    assert [event.attempt for event in crew.heard.all("start")] == [1]
    assert q.get_result(answer.id) == (True, None)


def test_a_lease_counts_from_behind_the_wait_of_its_claim(db: brant.Database, q: brant.Queue, path: Path) -> None:
    q.enqueue(1)
    claim = Claim(q, "w", 1)

    def make() -> None:
        with db._storage.transaction() as session:
            claim.make(session)

    with write_lock_held(path):
        making = in_thread(make)
        threading.Event().wait(2 * LEASE_S)
        still_locked = time.monotonic()
    making.result(PATIENCE_S)
    assert claim.jobs is not None
    assert len(claim.jobs) == 1
    assert claim.made_at >= still_locked


def test_a_plain_function_over_its_time_is_never_two(db: brant.Database, q: brant.Queue) -> None:
    running_now, most, asked = 0, 0, []

    @q.task("slow", retries=2, timeout_s=0.05, retry_delay_s=0)
    def slow() -> str:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        while not current_task().cancelled:
            time.sleep(0.001)
        asked.append(current_task().attempt)
        time.sleep(2 * LEASE_S)
        running_now -= 1
        return "too late"

    answer = slow()
    with running(db, slots=4), pytest.raises(brant.TaskFailed, match=r"timeout after 0\.05s"):
        answer.get(PATIENCE_S)
    assert (most, asked) == (1, [1, 2])
    assert [failed.error for failed in q.errors(answer.id)] == ["timeout after 0.05s"] * 2


def test_a_coroutine_over_its_time_is_ended(db: brant.Database, q: brant.Queue) -> None:
    ended = threading.Event()

    @q.task("slow", retries=1, timeout_s=0.05)
    async def slow() -> None:
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            ended.set()

    with running(db), pytest.raises(brant.TaskFailed) as failed:
        _ = slow().get(PATIENCE_S)
    assert failed.value.error == "timeout after 0.05s"
    assert ended.is_set()


CANCELS = """
import sys
import brant
with brant.open(sys.argv[1]) as db:
    assert db.queue("q").cancel(int(sys.argv[2]))
"""


def cancel_from_elsewhere(path: Path, job_id: int) -> None:
    with python(CANCELS, path, job_id) as process:
        assert process.wait(PATIENCE_S) == 0


def test_cancelling_from_another_process_ends_a_coroutine(db: brant.Database, path: Path) -> None:
    q = db.queue("q")  # a lease of minutes: its renewal can't be what notices
    ended = threading.Event()

    @q.task
    async def endless() -> None:
        try:
            await asyncio.sleep(10 * PATIENCE_S)
        finally:
            ended.set()

    answer = endless()
    with running(db, slots=1) as crew:
        crew.wait("start")
        cancel_from_elsewhere(path, answer.id)
        crew.wait("lost")
        assert ended.is_set()
        assert q.task("next")(lambda: "free again")().get(PATIENCE_S) == "free again"
    assert q.get_dead(answer.id) is None


def test_cancelling_right_after_the_start_is_noticed_without_a_poll(
    db: brant.Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_SAFETY_POLL_S", 1e6)
    task = db.queue("q").task("endless", store_result=False)(lambda: asyncio.sleep(10 * PATIENCE_S))
    with running(db, slots=1) as crew, brant.open(path) as other:
        for count in (1, 2, 3):
            answer = task()
            crew.wait("start", count)
            assert other.queue("q").cancel(answer.id)
            crew.wait("lost", count)


def test_cancelling_from_another_process_asks_a_plain_function_to_end(db: brant.Database, path: Path) -> None:
    q = db.queue("q")

    @q.task
    def endless() -> str:
        while not current_task().cancelled:
            time.sleep(0.001)
        return "of no use to anybody"

    answer = endless()
    with running(db, slots=1) as crew:
        crew.wait("start")
        cancel_from_elsewhere(path, answer.id)
        crew.wait("lost")
    assert q.get_result(answer.id) == (False, None)


def test_a_coroutine_that_is_handed_out_after_the_cancelling_is_closed(db: brant.Database, path: Path) -> None:
    q = db.queue("q")
    handed_out: list[Coroutine[Any, Any, None]] = []

    @q.task("late", store_result=False)
    def late() -> Any:
        while not current_task().cancelled:
            time.sleep(0.001)
        handed_out.append(asyncio.sleep(10 * PATIENCE_S))
        return handed_out[0]

    answer = late()
    with running(db, slots=1) as crew:
        crew.wait("start")
        assert q.cancel(answer.id)
        crew.wait("lost")
    assert inspect.getcoroutinestate(handed_out[0]) == inspect.CORO_CLOSED


def test_no_result_is_saved_and_nothing_settled_when_the_claim_was_lost(
    timed: brant.Database, clock: FakeClock
) -> None:
    q = timed.queue("q", visibility_timeout_s=60)
    go = threading.Event()

    @q.task("wait")
    def wait() -> str:
        go.wait(PATIENCE_S)
        return "from the loser"

    answer = wait()
    storage: Any = timed._storage
    usual, gate = storage.transaction, threading.Event()

    def gated(**options: Any) -> Any:
        gate.wait(PATIENCE_S)
        return usual(**options)

    with running(timed, slots=1) as crew:
        crew.wait("start")
        storage.transaction = gated  # no renewal gets through
        clock.advance(100)
        with brant.open(timed.path, clock=clock) as other:
            job = other.queue("q").claim_one("another worker")
            assert job is not None
            assert job.attempts == 2
            gate.set()
            go.set()
            crew.wait("lost")
            assert q.get_result(answer.id) == (False, None)
            assert job.ack()
