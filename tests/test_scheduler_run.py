"""The running scheduler: one leader that fires, waits, and says when it can not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseReplaced
from brant.testing import FakeClock, pending_payloads
from tests.looping import Warnings, run, until
from tests.plainly import note_transactions, refusing
from tests.servers import Server
from tests.waiting import PATIENCE_S, line_of, python, write_lock_held

pytestmark = pytest.mark.both_backends

START = 1_700_000_000
LOCK = brant.Scheduler.LOCK_NAME

LEADS = """
import asyncio, sys
import brant

async def main():
    scheduler = brant.open(sys.argv[1]).scheduler()
    scheduler.lock_ttl = 1.5
    scheduler.add(name="tick", queue="q", schedule=brant.every_s(1))
    running = asyncio.create_task(scheduler.run())
    async for _ in scheduler.db.update_events():
        if scheduler.db.queue("q").exists():
            print("fired", flush=True)
    await running

asyncio.run(main())
"""


@asynccontextmanager
async def _leading(scheduler: brant.Scheduler) -> AsyncIterator[asyncio.Task[None]]:
    """A scheduler that runs and has its lock, stopped at the end."""
    stop = asyncio.Event()
    running = asyncio.create_task(scheduler.run(stop))
    await until(scheduler.db, lambda: running.done() or _lock(scheduler.db) is not None)
    try:
        yield running
    finally:
        stop.set()
        await asyncio.wait({running})
    await running


def _lock(db: brant.Database) -> dict[str, Any] | None:
    rows = db.query("SELECT owner, expires_at FROM _honker_locks WHERE name = ?", [LOCK])
    return rows[0] if rows else None


def _steal_lock(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_locks SET owner = 'thief', expires_at = expires_at + 60 WHERE name = ?", [LOCK])


def _count(db: brant.Database) -> int:
    return db.queue("q").stats().pending


def test_without_any_schedule_there_is_nothing_to_run(db: brant.Database) -> None:
    with pytest.raises(RuntimeError, match="no registered tasks"):
        asyncio.run(db.scheduler().run())
    assert _lock(db) is None


def test_it_fires_each_schedule_when_it_is_due(timed: brant.Database, clock: FakeClock) -> None:
    async def test() -> None:
        timed.scheduler().add(name="tens", queue="q", schedule=brant.every_s(10))
        async with _leading(timed.scheduler()):
            for fired in range(1, 4):
                clock.advance(9)
                assert _count(timed) == fired - 1
                clock.advance(1)
                await until(timed, lambda expected=fired: _count(timed) == expected)  # type: ignore[misc]

    run(test())


def test_schedules_that_another_process_added_are_enough_and_come_in_while_it_runs(
    timed: brant.Database, clock: FakeClock, path: Path
) -> None:
    async def test() -> None:
        with brant.open(path, clock=clock) as elsewhere:
            elsewhere.scheduler().add(name="later", queue="q", schedule=brant.every_s(50))
            async with _leading(timed.scheduler()):
                elsewhere.scheduler().add(name="sooner", queue="q", schedule=brant.every_s(5))
                clock.advance(5)
                await until(timed, lambda: _count(timed) == 1)

    run(test())


@pytest.mark.guarantee("G15")
def test_a_second_scheduler_is_refused(timed: brant.Database, clock: FakeClock, path: Path) -> None:
    async def test() -> None:
        timed.scheduler().add(name="n", queue="q", schedule=brant.every_s(10))
        with brant.open(path, clock=clock) as elsewhere:
            async with _leading(timed.scheduler()):
                leader = _lock(timed)
                for second in (timed.scheduler(), elsewhere.scheduler()):
                    with pytest.raises(brant.LockHeld, match=LOCK):
                        await second.run()
                assert _lock(timed) == leader

    run(test())


def test_one_scheduler_object_runs_once_at_a_time(timed: brant.Database) -> None:
    async def test() -> None:
        scheduler = timed.scheduler()
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(scheduler) as running:
            with pytest.raises(brant.LockHeld):
                await scheduler.run()
            assert _lock(timed) is not None
            assert not running.done()
        async with _leading(scheduler):
            pass

    run(test())


def test_schedulers_with_locks_of_their_own_fire_each_boundary_once_together(
    timed: brant.Database, clock: FakeClock
) -> None:
    async def test() -> None:
        timed.scheduler().add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(timed.scheduler()), _leading(timed.scheduler("another-lock")):
            for fired in range(1, 6):
                clock.advance(10)
                await until(timed, lambda expected=fired: _count(timed) >= expected)  # type: ignore[misc]
        assert _count(timed) == 5

    run(test())


def test_stopping_releases_the_lock(timed: brant.Database) -> None:
    async def test() -> None:
        timed.scheduler().add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(timed.scheduler()):
            assert _lock(timed) is not None
        assert _lock(timed) is None

    run(test())


def test_a_scheduler_that_is_cancelled_releases_the_lock(timed: brant.Database) -> None:
    async def test() -> None:
        timed.scheduler().add(name="n", queue="q", schedule=brant.every_s(10))
        with pytest.raises(asyncio.CancelledError):
            async with _leading(timed.scheduler()) as running:
                running.cancel()
                await asyncio.wait({running})
        assert _lock(timed) is None

    run(test())


@pytest.mark.guarantee("G15")
def test_losing_the_lock_ends_it_with_an_error_and_the_thief_keeps_its_own(
    timed: brant.Database, clock: FakeClock
) -> None:
    async def test() -> None:
        timed.scheduler().add(name="n", queue="q", schedule=brant.every_s(10))
        with pytest.raises(brant.LeadershipLost, match="lost"):
            async with _leading(timed.scheduler()) as running:
                _steal_lock(timed)
                clock.advance(10)
                await asyncio.wait({running})
        assert _lock(timed) == {"owner": "thief", "expires_at": START + 120}
        assert _count(timed) == 0

    run(test())


@pytest.mark.guarantee("G15")
def test_a_leader_that_stood_still_for_longer_than_its_lock_fires_nothing_more(
    timed: brant.Database, clock: FakeClock
) -> None:
    async def test() -> None:
        timed.scheduler().add(name="n", queue="q", schedule=brant.every_s(100), missed="one")
        with pytest.raises(brant.LeadershipLost):
            async with _leading(timed.scheduler()) as running:
                clock.advance(3600)
                await asyncio.wait({running})
        assert _count(timed) == 0
        async with _leading(timed.scheduler()):
            await until(timed, lambda: _count(timed) == 1)

    run(test())


def test_the_heartbeat_keeps_the_lock_near_its_full_time(timed: brant.Database, clock: FakeClock) -> None:
    async def test() -> None:
        scheduler = timed.scheduler()
        scheduler.heartbeat_interval = 0.01
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10**6))
        async with _leading(scheduler):
            for _ in range(4):
                clock.advance(50)
                full = {"expires_at": clock.now() + scheduler.lock_ttl}
                await until(timed, lambda full=full: (_lock(timed) or {}).items() >= full.items())  # type: ignore[misc]

    run(test())


def test_the_heartbeat_notices_a_thief(db: brant.Database) -> None:
    async def test() -> None:
        scheduler = db.scheduler()
        scheduler.heartbeat_interval = 0.01
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10**6))
        with pytest.raises(brant.LeadershipLost):
            async with _leading(scheduler) as running:
                _steal_lock(db)
                await asyncio.wait({running})

    run(test())


def test_it_waits_while_the_only_schedule_is_paused_and_goes_on_when_resumed(
    timed: brant.Database, clock: FakeClock
) -> None:
    async def test() -> None:
        scheduler = timed.scheduler()
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(timed.scheduler()) as running:
            scheduler.pause("n")
            clock.advance(45)
            assert not running.done()
            assert _count(timed) == 0
            scheduler.resume("n")
            await until(timed, lambda: _count(timed) == 1)
            clock.advance(5)
            await until(timed, lambda: _count(timed) == 2)

    run(test())


def test_it_waits_when_the_last_schedule_is_removed(timed: brant.Database, clock: FakeClock) -> None:
    async def test() -> None:
        scheduler = timed.scheduler()
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(timed.scheduler()) as running:
            scheduler.remove("n")
            clock.advance(20)
            scheduler.add(name="new", queue="q", schedule=brant.every_s(10))
            clock.advance(10)
            await until(timed, lambda: _count(timed) == 1)
            assert not running.done()

    run(test())


@pytest.mark.guarantee("G13")
def test_a_bad_schedule_does_not_stop_the_others(timed: brant.Database, clock: FakeClock) -> None:
    async def test() -> None:
        for name in ("bad", "good"):
            timed.scheduler().add(name=name, queue="q", schedule=brant.every_s(10))
        with timed.transaction() as tx:
            tx.execute("UPDATE _honker_scheduler_tasks SET cron_expr = 'nonsense' WHERE name = 'bad'")
        async with _leading(timed.scheduler()):
            for fired in (1, 2):
                clock.advance(10)
                await until(timed, lambda expected=fired: _count(timed) == expected)  # type: ignore[misc]

    run(test())


def test_another_s_long_write_does_not_end_it(path: Path) -> None:
    async def test(db: brant.Database, clock: FakeClock) -> None:
        scheduler = db.scheduler()
        scheduler.heartbeat_interval = 0.01
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(scheduler) as running:
            with write_lock_held(path):
                clock.advance(10)
                assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
                assert not running.done()
            await until(db, lambda: _count(db) == 1)

    clock, warnings = FakeClock(), Warnings("brant.scheduler")
    with brant.open(path, clock=clock, busy_timeout_ms=0) as db:
        run(test(db, clock))


@pytest.mark.parametrize(
    ("event", "table", "due"), [("BEFORE INSERT", "_honker_live", True), ("BEFORE UPDATE", "_honker_locks", False)]
)
def test_a_write_that_is_refused_does_not_end_it(
    timed: brant.Database, clock: FakeClock, event: str, table: str, due: bool
) -> None:
    async def test() -> None:
        scheduler, warnings = timed.scheduler(), Warnings("brant.scheduler")
        scheduler.heartbeat_interval = 0.01
        scheduler.add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(scheduler):
            with refusing(timed, event, table, "no room"):
                clock.advance(10 if due else 0)
                assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
            clock.advance(0 if due else 10)
            await until(timed, lambda: _count(timed) == 1)

    run(test())


def test_a_schedule_that_somebody_is_changing_is_waited_for_with_pauses(
    postgres_server: Server, clock: FakeClock
) -> None:
    """In a file nobody else could write meanwhile."""

    async def test(db: brant.Database, elsewhere: brant.Database) -> None:
        db.scheduler().add(name="n", queue="q", schedule=brant.every_s(10))
        async with _leading(db.scheduler()):
            with elsewhere.transaction() as tx:
                elsewhere.scheduler().update("n", payload="new", tx=tx)
                begun, since = note_transactions(db), time.monotonic()
                clock.advance(10)
                await until(db, lambda: len(begun) >= 6)
                assert time.monotonic() - since > 0.4, "between six tries there are five pauses"
            await until(db, lambda: _count(db) == 1)
        assert pending_payloads(db.queue("q")) == ["new"]

    with (
        postgres_server.database() as address,
        brant.open(address, clock=clock) as db,
        brant.open(address, clock=clock) as elsewhere,
    ):
        run(test(db, elsewhere))


@pytest.mark.files_only("a server's database can't be moved away")
def test_a_file_that_was_replaced_ends_it(db: brant.Database, path: Path) -> None:
    async def test() -> None:
        scheduler = db.scheduler()
        scheduler.add(name="n", queue="q", schedule=brant.every_s(3600))
        running = asyncio.create_task(scheduler.run())
        await until(db, lambda: _lock(db) is not None)
        path.rename(path.with_name("moved.db"))
        await asyncio.wait({running})
        with pytest.raises(DatabaseReplaced):
            running.result()

    run(test())


@pytest.mark.guarantee("G13")
def test_when_the_leader_is_killed_another_takes_over_and_every_boundary_fires_once(path: Path) -> None:
    async def take_over(db: brant.Database) -> None:
        fired = _count(db)
        with db.lock(LOCK, wait=PATIENCE_S):
            pass  # the dead leader's time is over
        async with _leading(db.scheduler()):
            await until(db, lambda: _count(db) > fired)

    with brant.open(path) as db:
        with python(LEADS, path) as leader:
            assert line_of(leader) == "fired"
            leader.kill()
        first = db.query("SELECT min(created_at) AS at FROM _honker_live")[0]["at"]
        run(take_over(db))
        schedule = db.scheduler().schedules()[0]
        assert schedule.last_fire_at is not None
        assert _count(db) == schedule.last_fire_at - first + 1
