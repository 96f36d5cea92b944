"""What a delivery may ask for: later without an attempt, never again, or nothing more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import brant
from brant.outbox import current_delivery
from brant.outcomes import Cancel, Dead, Outcome, Retry, Snooze
from brant.testing import FakeClock
from tests.looping import run, until, working


def _row(db: brant.Database) -> dict[str, Any]:
    (row,) = db.query("SELECT * FROM _honker_live")
    return row


def raising(outcome: Outcome) -> Callable[[object], None]:
    def deliver(payload: object) -> None:
        raise outcome

    return deliver


def returning(outcome: Outcome) -> Callable[[object], Outcome]:
    return lambda payload: outcome


def returning_later(outcome: Outcome) -> Callable[[object], Any]:
    async def deliver(payload: object) -> Outcome:
        return outcome

    return deliver


WAYS = [raising, returning, returning_later]


@pytest.mark.parametrize("way", WAYS)
def test_a_snoozed_delivery_comes_again_and_has_used_no_attempt(
    timed: brant.Database, clock: FakeClock, way: Callable[[Outcome], Any]
) -> None:
    outbox = timed.outbox("mail", way(Snooze(30)), max_attempts=1)
    outbox.enqueue("later")

    async def test() -> None:
        async with working(outbox):
            for _ in range(3):
                await until(timed, lambda: _row(timed)["run_at"] == clock.now() + 30)
                assert _row(timed)["max_attempts"] - _row(timed)["attempts"] == 1
                clock.advance(30)
            await until(timed, lambda: _row(timed)["run_at"] == clock.now() + 30)

    run(test())
    assert outbox.queue.stats().dead == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_dead_delivery_is_a_dead_letter_at_once_with_its_reason(
    db: brant.Database, way: Callable[[Outcome], Any]
) -> None:
    outbox = db.outbox("mail", way(Dead("gone for good")), max_attempts=5)
    outbox.enqueue("never")

    async def test() -> None:
        async with working(outbox):
            await until(db, lambda: outbox.queue.stats().dead == 1)

    run(test())
    (dead,) = outbox.queue.list_dead()
    assert (dead.attempts, dead.last_error) == (1, "gone for good")


@pytest.mark.parametrize("way", WAYS)
def test_a_retry_is_after_the_time_that_it_asks_for(
    timed: brant.Database, clock: FakeClock, way: Callable[[Outcome], Any]
) -> None:
    outbox = timed.outbox("mail", way(Retry(77, "not yet")))
    outbox.enqueue("again")

    async def test() -> None:
        async with working(outbox):
            await until(timed, lambda: _row(timed)["run_at"] == clock.now() + 77)

    run(test())
    (error,) = outbox.queue.errors(_row(timed)["id"])
    assert error.error == "not yet"


def test_snoozes_do_not_lengthen_the_backoff(timed: brant.Database, clock: FakeClock) -> None:
    answers: list[Exception] = [Snooze(1), Snooze(1), Snooze(1), ValueError("now it fails")]

    def deliver(payload: object) -> None:
        raise answers.pop(0)

    outbox = timed.outbox("mail", deliver, base_backoff_s=100)
    outbox.enqueue("again")

    async def test() -> None:
        async with working(outbox):
            for left in (3, 2, 1):
                await until(timed, lambda: len(answers) == left and _row(timed)["state"] == "pending")  # noqa: B023
                clock.advance(1)
            await until(timed, lambda: not answers and _row(timed)["state"] == "pending")

    run(test())
    assert 90 <= _row(timed)["run_at"] - clock.now() <= 110


def test_a_retry_that_asks_for_no_time_gets_the_backoff(timed: brant.Database, clock: FakeClock) -> None:
    outbox = timed.outbox("mail", raising(Retry()), base_backoff_s=100)
    outbox.enqueue("again")

    async def test() -> None:
        async with working(outbox):
            await until(timed, lambda: 90 <= _row(timed)["run_at"] - clock.now() <= 110)

    run(test())


@pytest.mark.parametrize("way", WAYS)
def test_a_cancelled_delivery_is_gone(db: brant.Database, way: Callable[[Outcome], Any]) -> None:
    outbox = db.outbox("mail", way(Cancel("nobody waits for it")))
    outbox.enqueue("nothing")

    async def test() -> None:
        async with working(outbox):
            await until(db, lambda: not outbox.queue.exists())

    run(test())
    assert outbox.queue.stats().dead == 0


def test_a_delivery_can_ask_which_job_it_is_for(db: brant.Database) -> None:
    seen: list[int | None] = []

    def note() -> None:
        job = current_delivery()
        seen.append(None if job is None else job.id)

    async def coroutine(payload: object) -> None:
        note()

    plain = db.outbox("plain", lambda payload: note())
    other = db.outbox("other", coroutine)
    ids = [plain.enqueue(1), other.enqueue(2)]

    async def test() -> None:
        async with working(plain, other):
            await until(db, lambda: len(seen) == 2 and not plain.queue.exists() and not other.queue.exists())

    run(test())
    assert sorted(seen, key=str) == sorted(ids)
    assert current_delivery() is None
