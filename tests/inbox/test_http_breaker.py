"""Circuit breaking: a host that fails again and again is left alone, and its jobs lose no attempts over it."""

from __future__ import annotations

from typing import Any

import pytest

import brant
from brant.inbox import Destination, HttpDelivery
from brant.outcomes import Outcome, Retry, Snooze
from brant.testing import FakeClock
from tests.inbox.odd_server import OddServer, close_silently, odd_server, status
from tests.inbox.test_http_delivery import LOCAL, SECRET
from tests.looping import run, until, working
from tests.waiting import in_thread

FAILS = status(500)
WORKS = status(204)


def made(server: OddServer, clock: FakeClock, **options: Any) -> HttpDelivery:
    return HttpDelivery(server.url, SECRET, clock=clock, breaker_failures=3, breaker_rest_s=30, **LOCAL, **options)


def outcome_of(delivery: HttpDelivery) -> Outcome | None:
    try:
        delivery.send({})
    except Outcome as outcome:
        return outcome
    return None


def fail(delivery: HttpDelivery, times: int) -> None:
    for _ in range(times):
        assert isinstance(outcome_of(delivery), Retry)


def rest_of(delivery: HttpDelivery) -> float:
    """For how long it puts a job off."""
    outcome = outcome_of(delivery)
    assert isinstance(outcome, Snooze)
    return outcome.for_s


def test_after_failures_in_a_row_the_host_is_left_alone(clock: FakeClock) -> None:
    with odd_server(close_silently, FAILS, FAILS, WORKS) as server:
        delivery = made(server, clock)
        fail(delivery, 3)
        assert 30 <= rest_of(delivery) <= 33
        clock.advance(29)
        assert 1 <= rest_of(delivery) <= 1.1
        assert len(server.requests) == 3


def test_a_success_in_between_starts_the_count_anew(clock: FakeClock) -> None:
    with odd_server(FAILS, FAILS, WORKS, FAILS, FAILS, WORKS) as server:
        delivery = made(server, clock)
        fail(delivery, 2)
        assert outcome_of(delivery) is None
        fail(delivery, 2)
        assert outcome_of(delivery) is None


def test_a_refusal_is_an_answer_and_no_failure_of_the_host(clock: FakeClock) -> None:
    with odd_server(status(404)) as server:
        delivery = made(server, clock)
        for _ in range(10):
            outcome_of(delivery)
        assert len(server.requests) == 10


def test_after_its_rest_one_request_tries_and_a_success_opens_the_way(clock: FakeClock) -> None:
    with odd_server(FAILS, FAILS, FAILS, WORKS) as server:
        delivery = made(server, clock)
        fail(delivery, 3)
        clock.advance(30)
        for _ in range(5):
            assert outcome_of(delivery) is None


def test_while_one_request_tries_the_others_wait(clock: FakeClock) -> None:
    def answers_when_told(exchange: Any) -> None:
        assert isinstance(outcome_of(delivery), Snooze)
        WORKS(exchange)

    with odd_server(FAILS, FAILS, FAILS, answers_when_told, WORKS) as server:
        delivery = made(server, clock)
        fail(delivery, 3)
        clock.advance(30)
        assert in_thread(outcome_of, delivery).result(30) is None
        assert outcome_of(delivery) is None


def test_a_trial_that_fails_doubles_the_rest_up_to_an_end(clock: FakeClock) -> None:
    with odd_server(FAILS) as server:
        delivery = made(server, clock)
        fail(delivery, 3)
        for rest in (30, 60, 120, 240, 480, 600, 600):
            assert rest <= rest_of(delivery) <= rest * 1.1
            clock.advance(rest)
            fail(delivery, 1)


def test_each_host_has_its_own(clock: FakeClock) -> None:
    with odd_server(FAILS) as bad, odd_server(WORKS) as good:
        delivery = HttpDelivery(lambda payload: Destination(payload, SECRET), clock=clock, breaker_failures=1, **LOCAL)
        with pytest.raises(Retry):
            delivery.send(bad.url)
        with pytest.raises(Snooze):
            delivery.send(bad.url)
        delivery.send(good.url)


def test_without_a_breaker_every_request_is_tried(clock: FakeClock) -> None:
    with odd_server(FAILS) as server:
        delivery = HttpDelivery(server.url, SECRET, clock=clock, breaker_failures=None, **LOCAL)
        fail(delivery, 20)


def test_jobs_of_an_outbox_are_put_off_and_lose_no_attempt(timed: brant.Database, clock: FakeClock) -> None:
    """The outage lasts longer than the attempts of the jobs would, and nothing dies."""
    with odd_server(*[FAILS] * 6, WORKS) as server:
        delivery = HttpDelivery(server.url, SECRET, breaker_failures=2, breaker_rest_s=100, **LOCAL)
        outbox = timed.outbox("partner", delivery, max_attempts=6, base_backoff_s=1)
        for n in range(10):
            outbox.enqueue({"n": n})

        async def test() -> None:
            async with working(outbox):
                while outbox.queue.exists():
                    await until(timed, lambda: outbox.queue.due_in() != 0 and outbox.queue.stats().processing == 0)
                    clock.advance(outbox.queue.due_in() or 0)

        run(test())
    assert outbox.queue.stats().dead == 0
    assert len(server.requests) == 16
