"""Deliveries that fail, stall or are cut off: retried, renewed, and never lost."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseReplaced
from brant.testing import FakeClock
from tests.looping import Warnings, run, until, working
from tests.plainly import refusing
from tests.waiting import PATIENCE_S, write_lock_held


def _row(db: brant.Database) -> dict[str, Any]:
    (row,) = db.query("SELECT * FROM _honker_live")
    return row


@pytest.mark.guarantee("G2")
def test_failures_back_off_doubling_until_dead_with_the_error(timed: brant.Database, clock: FakeClock) -> None:
    attempts: list[int] = []

    def fails(payload: object) -> None:
        attempts.append(len(attempts) + 1)
        raise ConnectionError(f"refused, attempt {len(attempts)}")

    outbox = timed.outbox("mail", fails)
    outbox.enqueue("unlucky")

    async def test() -> None:
        async with working(outbox):
            for attempt in range(1, 5):
                await until(timed, lambda: _row(timed)["state"] == "pending" and len(attempts) == attempt)  # noqa: B023
                wait_s = _row(timed)["run_at"] - clock.now()
                assert 0.9 * 5 * 2 ** (attempt - 1) <= wait_s <= 1.1 * 5 * 2 ** (attempt - 1)
                clock.advance(wait_s)
            await until(timed, lambda: outbox.queue.stats().dead == 1)

    run(test())
    (dead,) = outbox.queue.list_dead()
    assert (dead.payload, dead.attempts) == ("unlucky", 5)
    assert dead.last_error is not None
    assert dead.last_error.startswith("refused, attempt 5\n")
    assert "in fails" in dead.last_error
    errors = [error.error.splitlines()[0] for error in outbox.queue.errors(dead.id)]
    assert errors == [f"refused, attempt {number}" for number in range(1, 6)]


def test_the_backoff_is_spread_by_chance_and_has_an_end(db: brant.Database) -> None:
    outbox = db.outbox("mail", print, base_backoff_s=10)
    assert len({outbox.backoff(1) for _ in range(50)}) > 1
    for attempt in (1, 2, 3, 9, 50, 10_000):
        middle = min(10.0 * 2 ** min(attempt - 1, 100), 3600)
        assert 0.9 * middle <= outbox.backoff(attempt) <= 1.1 * middle


def test_retryable_says_when_to_try_again(timed: brant.Database, clock: FakeClock) -> None:
    def asks_for_time(payload: object) -> None:
        raise brant.Retryable("rate limited", delay_s=1234)

    outbox = timed.outbox("mail", asks_for_time)
    outbox.enqueue(1)

    async def test() -> None:
        async with working(outbox):
            await until(timed, lambda: _row(timed)["run_at"] == clock.now() + 1234)

    run(test())


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("a file called \udcff"),
        brant.Retryable("soon", delay_s=float("nan")),
        brant.Retryable("never", delay_s=float("inf")),
        brant.Retryable("before", delay_s=-5),
        Unspeakable(),
        asyncio.CancelledError("of something inside"),
        TimeoutError(),
        StopIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("asynchronous", [True, False])
def test_no_error_of_a_delivery_ends_the_worker(
    timed: brant.Database, error: BaseException, asynchronous: bool
) -> None:
    delivered: list[object] = []

    def plain(payload: object) -> None:
        if payload == "bad":
            raise error
        delivered.append(payload)

    async def coroutine(payload: object) -> None:
        plain(payload)

    outbox = timed.outbox("mail", coroutine if asynchronous else plain, max_attempts=1)
    outbox.enqueue("bad")
    outbox.enqueue("good")

    async def test() -> None:
        async with working(outbox):
            await until(timed, lambda: not outbox.queue.exists())

    run(test())
    assert delivered == ["good"]
    (dead,) = outbox.queue.list_dead()
    assert dead.payload == "bad"
    assert dead.last_error


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("stored", ["{not json", "[" * 100_000])
def test_a_payload_that_is_not_json_is_dead_lettered_and_the_next_delivered(db: brant.Database, stored: str) -> None:
    delivered: list[object] = []
    outbox = db.outbox("mail", delivered.append)
    with db.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload) VALUES ('_outbox:mail', ?)", [stored])
    outbox.enqueue("good")

    async def test() -> None:
        async with working(outbox):
            await until(db, lambda: not outbox.queue.exists())

    run(test())
    assert delivered == ["good"]
    (dead,) = outbox.queue.list_dead()
    assert (dead.payload, dead.attempts) == (stored, 1)
    assert dead.last_error is not None
    assert "payload" in dead.last_error


@pytest.mark.guarantee("G4")
def test_the_lease_is_renewed_for_as_long_as_the_delivery_takes(timed: brant.Database, clock: FakeClock) -> None:
    release = threading.Event()
    outbox = timed.outbox("mail", lambda _: release.wait(PATIENCE_S), visibility_timeout_s=0.3)
    outbox.enqueue(1)

    async def test() -> None:
        async with working(outbox):
            await until(timed, lambda: _row(timed)["state"] == "processing")
            for _ in range(5):
                clock.advance(0.2)
                await until(timed, lambda: _row(timed)["claim_expires_at"] == clock.now() + 0.3)
                assert outbox.queue.claim_one("another") is None
            release.set()
            await until(timed, lambda: not outbox.queue.exists())

    run(test())


@pytest.mark.guarantee("G4")
def test_slow_deliveries_leave_threads_for_the_renewal_of_their_leases(timed: brant.Database, clock: FakeClock) -> None:
    release = threading.Event()
    outbox = timed.outbox("mail", lambda _: release.wait(PATIENCE_S), visibility_timeout_s=0.3)
    outbox.enqueue(1)
    outbox.enqueue(2)

    def leased(until: float) -> bool:
        return len(timed.query("SELECT 1 FROM _honker_live WHERE claim_expires_at = ?", [until])) == 2

    async def test() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with working(outbox, outbox):
            try:
                await until(timed, lambda: leased(clock.now() + 0.3))
                clock.advance(0.2)
                async with asyncio.timeout(10):
                    await until(timed, lambda: leased(clock.now() + 0.3))
            finally:
                release.set()

    run(test())


@pytest.mark.guarantee("G2")
def test_another_s_long_write_during_a_claim_does_not_end_the_worker(path: Path) -> None:
    delivered: list[object] = []
    warnings = Warnings("brant.outbox")

    async def test(db: brant.Database) -> None:
        outbox = db.outbox("mail", delivered.append)
        outbox.enqueue("one")
        with write_lock_held(path):
            worker = working(outbox)
            await worker.__aenter__()
            assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
        await until(db, lambda: not outbox.queue.exists())
        await worker.__aexit__(None, None, None)

    with brant.open(path, busy_timeout_ms=0) as db:
        run(test(db))
    assert delivered == ["one"]


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("fails", [False, True])
def test_another_s_long_write_during_the_settling_does_not_end_the_worker(path: Path, fails: bool) -> None:
    delivered: list[object] = []
    started, release = threading.Event(), threading.Event()
    warnings = Warnings("brant.outbox")

    def delivery(payload: object) -> None:
        delivered.append(payload)
        started.set()
        assert release.wait(PATIENCE_S)
        if fails and len(delivered) == 1:
            raise brant.Retryable("again", delay_s=0)

    async def test(db: brant.Database) -> None:
        outbox = db.outbox("mail", delivery)
        outbox.enqueue("one")
        async with working(outbox):
            await asyncio.to_thread(started.wait)
            with write_lock_held(path):
                release.set()
                assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
            await until(db, lambda: not outbox.queue.exists())

    with brant.open(path, busy_timeout_ms=0) as db:
        run(test(db))
    assert delivered == ["one"] * (2 if fails else 1)


@pytest.mark.guarantee("G4")
def test_a_renewal_that_meets_another_s_long_write_is_tried_again(path: Path) -> None:
    release, clock, warnings = threading.Event(), FakeClock(), Warnings("brant.outbox")

    async def test(db: brant.Database) -> None:
        outbox = db.outbox("mail", lambda _: release.wait(PATIENCE_S), visibility_timeout_s=0.3)
        outbox.enqueue(1)
        async with working(outbox):
            await until(db, lambda: _row(db)["state"] == "processing")
            with write_lock_held(path):
                assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
            clock.advance(0.2)
            await until(db, lambda: _row(db)["claim_expires_at"] == clock.now() + 0.3)
            release.set()
            await until(db, lambda: not outbox.queue.exists())

    with brant.open(path, clock=clock, busy_timeout_ms=0) as db:
        run(test(db))


@pytest.mark.both_backends
@pytest.mark.guarantee("G2")
def test_a_claim_that_is_refused_does_not_end_the_worker(db: brant.Database) -> None:
    delivered: list[object] = []
    outbox, warnings = db.outbox("mail", delivered.append), Warnings("brant.outbox")
    outbox.enqueue("one")

    async def test() -> None:
        with refusing(db, "BEFORE UPDATE OF state", "_honker_live", "no claims", "NEW.state = 'processing'"):
            worker = asyncio.create_task(outbox.run_worker())
            assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
        await until(db, lambda: not outbox.queue.exists())
        worker.cancel()

    run(test())
    assert delivered == ["one"]


@pytest.mark.both_backends
@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("fails", [False, True])
def test_a_settling_that_is_refused_is_tried_again(db: brant.Database, fails: bool) -> None:
    delivered: list[object] = []
    refusal, warnings = ExitStack(), Warnings("brant.outbox")

    def delivery(payload: object) -> None:
        delivered.append(payload)
        if len(delivered) == 1:
            event, when = ("BEFORE UPDATE OF state", "NEW.state = 'pending'") if fails else ("BEFORE DELETE", "1 = 1")
            refusal.enter_context(refusing(db, event, "_honker_live", "no room", when))
            if fails:
                raise brant.Retryable("again", delay_s=0)

    outbox = db.outbox("mail", delivery)
    outbox.enqueue("one")
    outbox.enqueue("two")

    async def test() -> None:
        async with working(outbox):
            assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
            await asyncio.to_thread(refusal.close)
            await until(db, lambda: not outbox.queue.exists())

    run(test())
    assert sorted(map(str, delivered)) == (["one", "one", "two"] if fails else ["one", "two"])


@pytest.mark.both_backends
@pytest.mark.guarantee("G4")
def test_a_renewal_that_is_refused_is_tried_again(timed: brant.Database, clock: FakeClock) -> None:
    release, warnings = threading.Event(), Warnings("brant.outbox")
    outbox = timed.outbox("mail", lambda _: release.wait(PATIENCE_S), visibility_timeout_s=0.3)
    outbox.enqueue(1)

    async def test() -> None:
        async with working(outbox):
            await until(timed, lambda: _row(timed)["state"] == "processing")
            with refusing(timed, "BEFORE UPDATE OF claim_expires_at", "_honker_live", "no room"):
                assert await asyncio.to_thread(warnings.heard.wait, PATIENCE_S)
            clock.advance(0.2)
            await until(timed, lambda: _row(timed)["claim_expires_at"] == clock.now() + 0.3)
            release.set()
            await until(timed, lambda: not outbox.queue.exists())

    run(test())


@pytest.mark.both_backends
def test_a_worker_can_be_stopped_while_writes_are_refused(db: brant.Database) -> None:
    started = asyncio.Event()

    async def endless(payload: object) -> None:
        started.set()
        await asyncio.Event().wait()

    async def test() -> None:
        outbox = db.outbox("mail", endless)
        outbox.enqueue(1)
        worker = asyncio.create_task(outbox.run_worker())
        await started.wait()
        with refusing(db, "BEFORE UPDATE OF state", "_honker_live", "no room"):
            worker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await worker
        assert _row(db)["state"] == "processing"  # until its lease ends

    run(test())


def test_a_file_that_was_replaced_ends_the_worker(db: brant.Database, path: Path) -> None:
    async def test() -> None:
        outbox = db.outbox("mail", lambda _: None)
        outbox.enqueue(1)
        worker = asyncio.create_task(outbox.run_worker())
        await until(db, lambda: not outbox.queue.exists())
        path.rename(path.with_name("moved.db"))
        await asyncio.wait({worker})
        with pytest.raises(DatabaseReplaced):
            worker.result()

    run(test())


def test_a_delivery_that_is_cut_off_is_due_again_at_once(timed: brant.Database) -> None:
    started = asyncio.Event()

    async def endless(payload: object) -> None:
        started.set()
        await asyncio.Event().wait()

    async def test() -> None:
        outbox = timed.outbox("mail", endless)
        outbox.enqueue(1)
        async with working(outbox):
            await started.wait()
        assert (_row(timed)["state"], _row(timed)["attempts"]) == ("pending", 1)
        assert outbox.queue.claim_one("next") is not None

    run(test())


@pytest.mark.parametrize("left", [0, 1])
def test_a_delivery_that_keeps_the_stop_to_itself_is_settled_and_the_worker_ends(db: brant.Database, left: int) -> None:
    started = asyncio.Event()

    async def stubborn(payload: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if left:
                raise ValueError("something else") from None

    async def test() -> None:
        outbox = db.outbox("mail", stubborn)
        outbox.enqueue(1)
        async with working(outbox):
            await started.wait()
        assert outbox.queue.stats().claimed == 0
        assert outbox.queue.stats().pending == left

    run(test())


def test_a_worker_that_is_stopped_while_it_waits_leaves_nothing_claimed(db: brant.Database) -> None:
    outbox = db.outbox("mail", lambda _: None)

    async def test() -> None:
        for number in range(10):
            async with working(outbox):
                await asyncio.sleep(0)
            outbox.enqueue(number)
        assert db.query("SELECT 1 FROM _honker_live WHERE state = 'processing'") == []

    run(test())
