"""Handlers: one commit for all that they do, and an event that always says what became of it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.inbox import Event, RetryPolicy
from brant.outcomes import Cancel, Dead, Retry, Snooze
from brant.testing import FakeClock
from tests.inbox.tiny import QUEUE, dead_jobs, jobs, outcomes, send, status, tiny, work
from tests.worker.observing import start

pytestmark = pytest.mark.both_backends

Tx = brant.Transaction
QUICK = RetryPolicy(max_attempts=3, first_delay_s=10, jitter=0)


@pytest.fixture(autouse=True)
def _ledger(timed: brant.Database) -> None:
    with timed.transaction() as tx:
        tx.execute("CREATE TABLE ledger (event INTEGER, note TEXT)")


def note(event: Event, tx: Tx) -> None:
    tx.execute("INSERT INTO ledger VALUES (?, ?)", [event.id, event.provider_event_id])


def ledger(inbox: brant.Inbox) -> list[str]:
    return [row["note"] for row in inbox.db.query("SELECT note FROM ledger ORDER BY event")]


@pytest.mark.guarantee("G31")
def test_a_handlers_writes_the_mark_the_attempt_and_the_ack_are_one_commit(
    inbox: brant.Inbox, clock: FakeClock
) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(note)
    event_id = send(endpoint, "e1")
    clock.advance(5)
    assert work(inbox) == {"success": 1}
    event = inbox.get_event(event_id)
    assert (event.status, event.attempt_count, event.handled_at) == ("handled", 1, int(clock.now()))
    assert (ledger(inbox), outcomes(inbox, event_id), jobs(inbox)) == (["e1"], ["handled"], 0)


def test_the_handler_gets_the_event_with_its_body(inbox: brant.Inbox) -> None:
    endpoint, seen = tiny(inbox), []

    @endpoint.handle()
    def keep(event: Event, tx: Tx) -> None:
        seen.append((event.json(), event.headers.all("x-tiny"), event.endpoint))

    send(endpoint, "e1")
    work(inbox)
    assert seen == [({"id": "e1", "type": "t"}, ["s3cret25"], "in")]


def test_a_handler_is_found_by_type_and_the_one_without_a_type_takes_the_rest(inbox: brant.Inbox) -> None:
    endpoint, seen = tiny(inbox), []
    endpoint.add_handler(lambda event, tx: seen.append(("a or b", event.event_type)), "a", "b")
    endpoint.add_handler(lambda event, tx: seen.append(("rest", event.event_type)))
    for event_type in ("a", "b", "A"):
        send(endpoint, event_type, event_type)
    work(inbox)
    assert seen == [("a or b", "a"), ("a or b", "b"), ("rest", "A")]


@pytest.mark.guarantee("G31")
def test_a_failure_rolls_back_and_then_books_the_retry(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = tiny(inbox, retry=QUICK)

    @endpoint.handle()
    def fail(event: Event, tx: Tx) -> None:
        note(event, tx)
        raise ValueError("no \udcff luck")

    event_id = send(endpoint, "e1")
    assert work(inbox) == {"retry": 1}
    event = inbox.get_event(event_id)
    assert (event.status, event.attempt_count, event.last_error) == ("failed", 1, "ValueError: no \\udcff luck")
    assert (ledger(inbox), outcomes(inbox, event_id), jobs(inbox)) == ([], ["failed"], 1)
    assert inbox.db.queue(QUEUE).due_in() == 10


def test_retries_wait_longer_each_time_and_end_as_dead(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = tiny(inbox, retry=QUICK)
    endpoint.add_handler(lambda event, tx: 1 / 0)
    event_id = send(endpoint, "e1")
    delays = []
    for _ in range(2):
        assert work(inbox) == {"retry": 1}
        delays.append(inbox.db.queue(QUEUE).due_in())
        clock.advance(delays[-1] or 0)
    assert work(inbox) == {"dead": 1}
    assert delays == [10, 20]
    assert outcomes(inbox, event_id) == ["failed", "failed", "dead"]
    assert (status(inbox, event_id), jobs(inbox), dead_jobs(inbox)) == ("dead", 0, 1)


def test_jitter_spreads_the_delays_within_its_share() -> None:
    random.seed(7)
    policy = RetryPolicy(first_delay_s=100, backoff=2, jitter=0.2, max_delay_s=300)
    delays = {policy.delay_after(1) for _ in range(50)}
    assert len(delays) > 40
    assert all(80 <= delay <= 120 for delay in delays)
    assert 240 <= policy.delay_after(1000) <= 360


@pytest.mark.parametrize(
    ("outcome", "told", "expected", "attempts"),
    [
        (Dead("never"), "dead", "dead", ["dead"]),
        (Cancel("not ours"), "cancel", "ignored", ["ignored"]),
        (Snooze(7), "snooze", "received", []),
        (Retry(7, "soon"), "retry", "failed", ["failed"]),
        (brant.Retryable("soon", 7), "retry", "failed", ["failed"]),
        (Retry(float("nan")), "retry", "failed", ["failed"]),
    ],
)
@pytest.mark.parametrize("how", ["raised", "returned"])
def test_an_outcome_decides_and_its_writes_are_rolled_back(
    inbox: brant.Inbox, how: str, outcome: Exception, told: str, expected: str, attempts: list[str]
) -> None:
    endpoint = tiny(inbox)

    @endpoint.handle()
    def answer(event: Event, tx: Tx) -> Any:
        note(event, tx)
        if how == "raised" or isinstance(outcome, brant.Retryable):
            raise outcome
        return outcome

    event_id = send(endpoint, "e1")
    assert work(inbox) == {told: 1}
    assert (status(inbox, event_id), outcomes(inbox, event_id), ledger(inbox)) == (expected, attempts, [])


def test_to_snooze_costs_no_attempt(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = tiny(inbox, retry=RetryPolicy(max_attempts=2, first_delay_s=10, jitter=0))
    answers: list[Exception] = [Snooze(5), Snooze(5), ValueError("no luck"), Snooze(5), ValueError("none at all")]

    @endpoint.handle()
    def answer(event: Event, tx: Tx) -> None:
        raise answers.pop(0)

    event_id = send(endpoint, "e1")
    told: list[str] = []
    for _ in range(5):
        told += work(inbox)
        clock.advance(inbox.db.queue(QUEUE).due_in() or 0)
    assert told == ["snooze", "snooze", "retry", "snooze", "dead"]
    assert (outcomes(inbox, event_id), inbox.get_event(event_id).attempt_count) == (["failed", "dead"], 2)


def test_an_event_of_another_process_is_left_to_it(inbox: brant.Inbox, clock: FakeClock, path: Path) -> None:
    tiny(inbox, "ours").add_handler(note)
    with brant.open(path, clock=clock) as theirs, brant.Inbox(theirs) as elsewhere:
        endpoint = tiny(elsewhere, "theirs")
        endpoint.add_handler(note)
        event_id = send(endpoint, "e1")
        for _ in range(12):
            assert work(inbox) == {"snooze": 1}
            clock.advance(inbox.db.queue(QUEUE).due_in() or 0)
        assert (status(inbox, event_id), outcomes(inbox, event_id)) == ("received", [])
        assert work(elsewhere) == {"success": 1}
    assert (ledger(inbox), outcomes(inbox, event_id)) == (["e1"], ["handled"])


def test_an_event_whose_endpoint_is_nowhere_dies_after_a_day(inbox: brant.Inbox, clock: FakeClock, path: Path) -> None:
    tiny(inbox, "ours").add_handler(note)
    with brant.open(path, clock=clock) as theirs, brant.Inbox(theirs) as elsewhere:
        event_id = send(tiny(elsewhere, "gone"), "e1")
    pauses: list[float | None] = []
    for hours in (0, 0.1, 23.8):
        clock.advance(hours * 3600)
        assert work(inbox) == {"snooze": 1}
        pauses.append(inbox.db.queue(QUEUE).due_in())
    clock.advance(3600)
    assert work(inbox) == {"dead": 1}
    assert (pauses, status(inbox, event_id)) == ([1, 36, 60], "dead")
    assert inbox.get_event(event_id).last_error == "no worker of the last day has the endpoint 'gone'"


def test_a_missing_handler_is_dead_at_once_and_can_be_requeued(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    event_id = send(endpoint, "e1")
    assert work(inbox) == {"dead": 1}
    assert inbox.get_event(event_id).last_error == "no handler for 't' of the endpoint 'in'"
    endpoint.add_handler(note)
    inbox.requeue(event_id)
    assert work(inbox) == {"success": 1}
    assert (status(inbox, event_id), dead_jobs(inbox)) == ("handled", 0)


def test_an_async_handler_is_awaited_before_its_event_is_handled(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, retry=QUICK)

    @endpoint.handle("good")
    async def good(event: Event, tx: Tx) -> None:
        await asyncio.sleep(0)
        note(event, tx)

    @endpoint.handle("bad")
    async def bad(event: Event, tx: Tx) -> None:
        note(event, tx)
        await asyncio.sleep(0)
        raise ValueError

    handled, failed = send(endpoint, "e1", "good"), send(endpoint, "e2", "bad")
    assert work(inbox) == {"success": 1, "retry": 1}
    assert (status(inbox, handled), status(inbox, failed), ledger(inbox)) == ("handled", "failed", ["e1"])


@pytest.mark.guarantee("G31")
def test_a_crash_loop_ends_with_event_and_job_dead_and_can_be_requeued(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = tiny(inbox, retry=QUICK)
    endpoint.add_handler(note)
    event_id = send(endpoint, "e1")
    for _ in range(QUICK.max_attempts):
        assert inbox.db.queue(QUEUE).claim_one("crashes") is not None
        clock.advance(61)
    assert work(inbox) == {}
    event = inbox.get_event(event_id)
    assert (event.status, event.attempt_count, outcomes(inbox, event_id)) == ("dead", 3, ["dead"])
    assert (jobs(inbox), dead_jobs(inbox)) == (0, 1)
    inbox.requeue(event_id)
    assert work(inbox) == {"success": 1}


def test_a_dead_job_that_the_queue_puts_back_is_run(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    event_id = send(endpoint, "e1")
    work(inbox)
    endpoint.add_handler(note)
    assert inbox.db.queue(QUEUE).requeue_dead() == 1
    assert work(inbox) == {"success": 1}
    assert status(inbox, event_id) == "handled"


@pytest.mark.guarantee("G31")
def test_a_lost_lease_rolls_back_and_the_worker_goes_on(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint, seen = tiny(inbox), []

    @endpoint.handle()
    def slow_at_first(event: Event, tx: Tx) -> None:
        note(event, tx)
        seen.append(str(event.provider_event_id))
        if len(seen) == 1:
            clock.advance(61)

    event_id, other = send(endpoint, "e1"), send(endpoint, "e2")
    running = start(inbox.db, QUEUE, slots=1, scheduler=False)
    running.wait("success", 2)
    running.stop()
    assert running.heard.kinds().count("lost") == 1
    assert sorted(seen) == ["e1", "e1", "e2"]
    assert sorted(ledger(inbox)) == ["e1", "e2"]
    assert (status(inbox, event_id), status(inbox, other)) == ("handled", "handled")
    assert outcomes(inbox, event_id) == ["handled"]


def test_a_failure_after_the_lease_is_lost_is_not_booked(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint, seen = tiny(inbox), []

    @endpoint.handle()
    def too_slow_at_first(event: Event, tx: Tx) -> None:
        seen.append(event.id)
        if len(seen) > 1:
            raise Snooze(10_000)
        clock.advance(61)
        raise Dead("never")

    event_id = send(endpoint, "e1")
    running = start(inbox.db, QUEUE, slots=1)
    running.wait("lost")
    running.stop()
    assert (status(inbox, event_id), outcomes(inbox, event_id), jobs(inbox)) == ("received", [], 1)


def test_a_job_that_was_left_over_runs_nothing_again(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(note)
    event_id = send(endpoint, "e1")
    work(inbox)
    inbox.db.queue(QUEUE).enqueue({"event_id": event_id})
    inbox.db.queue(QUEUE).enqueue({"event_id": 999})
    assert work(inbox) == {"success": 2}
    assert (ledger(inbox), outcomes(inbox, event_id), jobs(inbox)) == (["e1"], ["handled"], 0)


@pytest.mark.parametrize("payload", [{}, {"event_id": "1"}, [1], "text", {"event_id": True}])
def test_a_job_that_names_no_event_is_a_dead_letter(inbox: brant.Inbox, payload: object) -> None:
    inbox.register_tasks()
    inbox.db.queue(QUEUE).enqueue(payload)
    assert work(inbox) == {"dead": 1}


@pytest.mark.guarantee("G31")
def test_an_event_whose_job_is_gone_is_given_one_again(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(note)
    event_id = send(endpoint, "e1")
    inbox.db.queue(QUEUE).read()
    assert (jobs(inbox), status(inbox, event_id)) == (0, "received")
    assert (inbox.recover(), inbox.recover()) == (1, 0)
    assert work(inbox) == {"success": 1}


def test_an_event_without_a_job_can_be_requeued_by_hand(inbox: brant.Inbox) -> None:
    event_id = send(tiny(inbox), "e1")
    with pytest.raises(ValueError, match="is received"):
        inbox.requeue(event_id)
    inbox.db.queue(QUEUE).read()
    inbox.requeue(event_id)
    assert jobs(inbox) == 1


def test_a_handlers_own_retry_policy_goes_before_the_endpoints(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, retry=QUICK)
    endpoint.handle("patient", retry=RetryPolicy(max_attempts=5, first_delay_s=100, jitter=0))(lambda event, tx: 1 / 0)
    endpoint.handle("once", retry=RetryPolicy(max_attempts=1))(lambda event, tx: 1 / 0)
    endpoint.handle()(lambda event, tx: 1 / 0)
    ids = {kind: send(endpoint, kind, kind) for kind in ("patient", "once", "other")}
    assert work(inbox) == {"retry": 2, "dead": 1}
    assert {kind: status(inbox, event_id) for kind, event_id in ids.items()} == {
        "patient": "failed",
        "once": "dead",
        "other": "failed",
    }
    due = {row["payload"]: row["run_at"] for row in inbox.db.query("SELECT payload, run_at FROM _honker_live")}
    waits = sorted(at - int(inbox.db.clock.now()) for at in due.values())
    assert waits == [10, 100]


def test_an_event_that_dies_is_told_of_in_the_commit_that_says_so(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, retry=RetryPolicy(max_attempts=1))
    endpoint.add_handler(lambda event, tx: 1 / 0)
    listener = inbox.db.listen("brant.inbox.dead")
    event_id = send(endpoint, "e1")
    work(inbox)
    heard = next(iter(listener)).payload
    assert heard == {
        "event_id": event_id,
        "endpoint": "in",
        "event_type": "t",
        "error": "ZeroDivisionError: division by zero",
    }
    listener.close()
