"""Side effects that follow a commit: delivered afterwards, retried, and never lost."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import TransactionError
from brant.outbox import Outbox
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, write_lock_held


def _run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test

    asyncio.run(bounded())


@asynccontextmanager
async def _working(*outboxes: Outbox) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Workers that must not end before the block does."""
    workers = [asyncio.create_task(outbox.run_worker()) for outbox in outboxes]
    try:
        yield workers
        assert not any(worker.done() for worker in workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)


async def _until(db: brant.Database, condition: Callable[[], bool]) -> None:
    changes = aiter(db.update_events())
    while not condition():
        await anext(changes)


def _row(db: brant.Database) -> dict[str, Any]:
    (row,) = db.query("SELECT * FROM _honker_live")
    return row


class Recorder:
    def __init__(self) -> None:
        self.delivered: list[Any] = []

    def plain(self, payload: Any) -> None:
        self.delivered.append(payload)

    async def coroutine(self, payload: Any) -> None:
        await asyncio.sleep(0)
        self.delivered.append(payload)


class AsyncCallable(Recorder):
    async def __call__(self, payload: Any) -> None:
        await self.coroutine(payload)


class PlainCallable(Recorder):
    def __call__(self, payload: Any) -> None:
        self.plain(payload)


def _shapes() -> list[tuple[Recorder, Callable[[Any], Any]]]:
    recorders = [Recorder() for _ in range(5)]
    asynchronous, plain = AsyncCallable(), PlainCallable()
    return [
        (recorders[0], recorders[0].plain),
        (recorders[1], recorders[1].coroutine),
        (recorders[2], functools.partial(recorders[2].coroutine)),
        (recorders[3], lambda payload: recorders[3].coroutine(payload)),
        (asynchronous, asynchronous),
        (plain, plain),
    ]


@pytest.mark.parametrize("shape", range(6))
def test_any_callable_delivers_and_is_awaited_where_it_has_to_be(db: brant.Database, shape: int) -> None:
    recorder, delivery = _shapes()[shape]
    outbox = db.outbox("mail", delivery)

    async def test() -> None:
        outbox.enqueue({"to": "alice"})
        async with _working(outbox):
            await _until(db, lambda: not outbox.queue.exists())

    _run(test())
    assert recorder.delivered == [{"to": "alice"}]


@pytest.mark.guarantee("G1")
def test_only_what_was_committed_is_delivered_and_only_then(db: brant.Database) -> None:
    recorder = Recorder()
    outbox = db.outbox("mail", recorder.plain)

    async def test() -> None:
        async with _working(outbox):
            with pytest.raises(ZeroDivisionError), db.transaction() as tx:
                outbox.enqueue("never", tx=tx)
                raise ZeroDivisionError
            with db.transaction() as tx:
                assert outbox.enqueue("committed", tx=tx) > 0
                assert recorder.delivered == []
            await _until(db, lambda: not outbox.queue.exists())

    _run(test())
    assert recorder.delivered == ["committed"]


def test_deliveries_keep_the_order_priority_and_delay(timed: brant.Database, clock: FakeClock) -> None:
    recorder = Recorder()
    outbox = timed.outbox("mail", recorder.plain)
    assert outbox.queue.name == "_outbox:mail"
    outbox.enqueue("first")
    outbox.enqueue("later", delay=30)
    outbox.enqueue("at", run_at=clock.now() + 20)
    outbox.enqueue("urgent", priority=5)
    outbox.enqueue("too late", delay=40, expires=35)

    async def test() -> None:
        async with _working(outbox):
            for delivered in (2, 3, 4):
                await _until(timed, lambda expected=delivered: len(recorder.delivered) == expected)  # type: ignore[misc]
                clock.advance(15)

    _run(test())
    assert recorder.delivered == ["urgent", "first", "at", "later"]


def test_a_slow_plain_delivery_does_not_block_the_event_loop(db: brant.Database) -> None:
    started, release = threading.Event(), threading.Event()

    def slow(payload: object) -> None:
        started.set()
        assert release.wait(PATIENCE_S)

    async def test() -> None:
        outbox = db.outbox("mail", slow)
        outbox.enqueue(1)
        async with _working(outbox):
            await asyncio.to_thread(started.wait)
            release.set()
            await _until(db, lambda: not outbox.queue.exists())

    _run(test())


@pytest.mark.guarantee("G2")
def test_failures_back_off_doubling_until_dead_with_the_error(timed: brant.Database, clock: FakeClock) -> None:
    attempts: list[int] = []

    def fails(payload: object) -> None:
        attempts.append(len(attempts) + 1)
        raise ConnectionError(f"refused, attempt {len(attempts)}")

    outbox = timed.outbox("mail", fails)
    outbox.enqueue("unlucky")

    async def test() -> None:
        async with _working(outbox):
            for attempt in range(1, 5):
                await _until(timed, lambda: _row(timed)["state"] == "pending" and len(attempts) == attempt)  # noqa: B023
                wait_s = _row(timed)["run_at"] - clock.now()
                assert 0.9 * 5 * 2 ** (attempt - 1) <= wait_s <= 1.1 * 5 * 2 ** (attempt - 1)
                clock.advance(wait_s)
            await _until(timed, lambda: outbox.queue.stats().dead == 1)

    _run(test())
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
        async with _working(outbox):
            await _until(timed, lambda: _row(timed)["run_at"] == clock.now() + 1234)

    _run(test())


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
        async with _working(outbox):
            await _until(timed, lambda: not outbox.queue.exists())

    _run(test())
    assert delivered == ["good"]
    (dead,) = outbox.queue.list_dead()
    assert dead.payload == "bad"
    assert dead.last_error


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("stored", ["{not json", "[" * 100_000])
def test_a_payload_that_is_not_json_is_dead_lettered_and_the_next_delivered(db: brant.Database, stored: str) -> None:
    recorder = Recorder()
    outbox = db.outbox("mail", recorder.plain)
    with db.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload) VALUES ('_outbox:mail', ?)", [stored])
    outbox.enqueue("good")

    async def test() -> None:
        async with _working(outbox):
            await _until(db, lambda: not outbox.queue.exists())

    _run(test())
    assert recorder.delivered == ["good"]
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
        async with _working(outbox):
            await _until(timed, lambda: _row(timed)["state"] == "processing")
            for _ in range(5):
                clock.advance(0.2)
                await _until(timed, lambda: _row(timed)["claim_expires_at"] == clock.now() + 0.3)
                assert outbox.queue.claim_one("another") is None
            release.set()
            await _until(timed, lambda: not outbox.queue.exists())

    _run(test())


@pytest.mark.guarantee("G4")
def test_slow_deliveries_leave_threads_for_the_renewal_of_their_leases(
    timed: brant.Database, clock: FakeClock
) -> None:
    release = threading.Event()
    outbox = timed.outbox("mail", lambda _: release.wait(PATIENCE_S), visibility_timeout_s=0.3)
    outbox.enqueue(1)
    outbox.enqueue(2)

    def leased(until: float) -> bool:
        return len(timed.query("SELECT 1 FROM _honker_live WHERE claim_expires_at = ?", [until])) == 2

    async def test() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with _working(outbox, outbox):
            try:
                await _until(timed, lambda: leased(clock.now() + 0.3))
                clock.advance(0.2)
                async with asyncio.timeout(10):
                    await _until(timed, lambda: leased(clock.now() + 0.3))
            finally:
                release.set()

    _run(test())


@pytest.mark.guarantee("G2")
def test_another_s_long_write_does_not_end_the_worker(path: Path) -> None:
    recorder = Recorder()
    delivering, release = threading.Event(), threading.Event()

    def delivery(payload: object) -> None:
        recorder.plain(payload)
        delivering.set()
        assert release.wait(PATIENCE_S)

    async def test(db: brant.Database) -> None:
        outbox = db.outbox("mail", delivery, visibility_timeout_s=60)
        outbox.enqueue("one")
        async with _working(outbox):
            await asyncio.to_thread(delivering.wait)
            with write_lock_held(path):
                release.set()
                await asyncio.sleep(0.1)  # time for a worker that is not patient to fail
            outbox.enqueue("two")
            await _until(db, lambda: not outbox.queue.exists())
        assert recorder.delivered == ["one", "two"]

    with brant.open(path, busy_timeout_ms=0) as db:
        _run(test(db))


def test_a_delivery_that_is_cut_off_is_due_again_at_once(timed: brant.Database) -> None:
    started = asyncio.Event()

    async def endless(payload: object) -> None:
        started.set()
        await asyncio.Event().wait()

    async def test() -> None:
        outbox = timed.outbox("mail", endless)
        outbox.enqueue(1)
        async with _working(outbox):
            await started.wait()
        assert (_row(timed)["state"], _row(timed)["attempts"]) == ("pending", 1)
        assert outbox.queue.claim_one("next") is not None

    _run(test())


def test_a_worker_that_is_stopped_while_it_waits_leaves_nothing_claimed(db: brant.Database) -> None:
    recorder = Recorder()
    outbox = db.outbox("mail", recorder.plain)

    async def test() -> None:
        for number in range(10):
            async with _working(outbox):
                await asyncio.sleep(0)
            outbox.enqueue(number)
        assert db.query("SELECT 1 FROM _honker_live WHERE state = 'processing'") == []

    _run(test())


def test_the_same_options_give_the_same_outbox(db: brant.Database) -> None:
    recorder = Recorder()
    outbox = db.outbox("mail", recorder.plain, max_attempts=2)
    assert db.outbox("mail", recorder.plain, max_attempts=2) is outbox
    assert db.outbox("other", recorder.plain) is not outbox


@pytest.mark.parametrize(
    "options",
    [{"delivery": print}, {"max_attempts": 6}, {"base_backoff_s": 6}, {"visibility_timeout_s": 61}],
)
def test_other_options_for_the_same_name_are_refused(db: brant.Database, options: dict[str, Any]) -> None:
    recorder = Recorder()
    db.outbox("mail", recorder.plain)
    with pytest.raises(ValueError, match="already opened"):
        db.outbox(**{"name": "mail", "delivery": recorder.plain} | options)
    with pytest.raises(ValueError, match="already opened"):
        db.outbox("mail", Recorder().plain)


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"delivery": "not callable"}, TypeError),
        ({"name": ""}, brant.InvalidValue),
        ({"max_attempts": 0}, brant.InvalidValue),
        ({"max_attempts": -1}, brant.InvalidValue),
        ({"base_backoff_s": -1}, brant.InvalidValue),
        ({"visibility_timeout_s": -1}, brant.InvalidValue),
        ({"visibility_timeout_s": 0}, brant.InvalidValue),
    ],
)
def test_an_outbox_that_could_not_deliver_is_refused_and_can_be_made_well(
    db: brant.Database, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        db.outbox(**{"name": "mail", "delivery": print} | options)
    assert db.outbox("mail", print).queue.max_attempts == 5


def test_the_first_use_of_an_outbox_is_before_a_transaction(db: brant.Database) -> None:
    with db.transaction(), pytest.raises(TransactionError, match="cannot construct Queue"):
        db.outbox("mail", print)
    assert db.outbox("mail", print).queue.name == "_outbox:mail"
