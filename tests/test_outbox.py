"""Side effects that follow a commit: who delivers them, when, and how often."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import brant
from brant.errors import TransactionError
from brant.testing import FakeClock
from tests.looping import run, until, working
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_backends


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
        async with working(outbox):
            await until(db, lambda: not outbox.queue.exists())

    run(test())
    assert recorder.delivered == [{"to": "alice"}]


@pytest.mark.guarantee("G1")
def test_only_what_was_committed_is_delivered_and_only_then(db: brant.Database) -> None:
    recorder = Recorder()
    outbox = db.outbox("mail", recorder.plain)

    async def test() -> None:
        async with working(outbox):
            with pytest.raises(ZeroDivisionError), db.transaction() as tx:
                outbox.enqueue("never", tx=tx)
                raise ZeroDivisionError
            with db.transaction() as tx:
                assert outbox.enqueue("committed", tx=tx) > 0
                assert recorder.delivered == []
            await until(db, lambda: not outbox.queue.exists())

    run(test())
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
    outbox.enqueue("last", delay=40)

    async def test() -> None:
        async with working(outbox):
            for delivered, pause in ((2, 20), (3, 10), (4, 10), (5, 0)):
                await until(timed, lambda expected=delivered: len(recorder.delivered) == expected)  # type: ignore[misc]
                clock.advance(pause)

    run(test())
    assert recorder.delivered == ["urgent", "first", "at", "later", "last"]


def test_a_slow_plain_delivery_does_not_block_the_event_loop(db: brant.Database) -> None:
    started, release = threading.Event(), threading.Event()

    def slow(payload: object) -> None:
        started.set()
        assert release.wait(PATIENCE_S)

    async def test() -> None:
        outbox = db.outbox("mail", slow)
        outbox.enqueue(1)
        async with working(outbox):
            await asyncio.to_thread(started.wait)
            release.set()
            await until(db, lambda: not outbox.queue.exists())

    run(test())


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
    known: dict[str, Any] = {"name": "mail", "delivery": recorder.plain}
    db.outbox(**known)
    with pytest.raises(ValueError, match="already opened"):
        db.outbox(**known | options)
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
    good: dict[str, Any] = {"name": "mail", "delivery": print}
    with pytest.raises(error):
        db.outbox(**good | options)
    assert db.outbox("mail", print).queue.max_attempts == 5


def test_the_first_use_of_an_outbox_is_before_a_transaction(db: brant.Database) -> None:
    with db.transaction(), pytest.raises(TransactionError, match="cannot construct Queue"):
        db.outbox("mail", print)
    assert db.outbox("mail", print).queue.name == "_outbox:mail"
