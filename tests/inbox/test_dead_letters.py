"""Jobs of events that somebody else than the inbox makes dead letters of: the event and those behind it are in step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.inbox import Endpoint, RetryPolicy
from brant.testing import FakeClock
from tests.inbox.tiny import QUEUE, dead_jobs, jobs, send, signed, status, tiny, work

pytestmark = pytest.mark.both_backends

TWICE = RetryPolicy(max_attempts=2, first_delay_s=10, jitter=0)
OLDER_TRIGGER = {
    "sqlite": (
        "DROP TRIGGER _brant_inbox_dead_in_step",
        "CREATE TRIGGER _brant_inbox_dead_in_step AFTER INSERT ON _honker_dead BEGIN SELECT 1; END",
    ),
    "postgres": (
        "CREATE OR REPLACE FUNCTION brant._brant_inbox_dead_in_step() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
    ),
}


@pytest.fixture
def endpoint(inbox: brant.Inbox) -> Endpoint:
    return tiny(inbox, ordering_key="provider", retry=TWICE)


def put(endpoint: Endpoint, event_id: str, about: str = "a") -> int:
    body = f'{{"id": "{event_id}", "type": "t", "about": "{about}"}}'.encode()
    return endpoint.receive(body, signed(body)).event_ids[0]


def crash(inbox: brant.Inbox, clock: FakeClock) -> None:
    """All attempts of the job that is due are used up by workers that die."""
    for _ in range(TWICE.max_attempts):
        assert inbox.db.queue(QUEUE).claim_one("crashes") is not None
        clock.advance(61)


@pytest.fixture
def alerts(inbox: brant.Inbox) -> Iterator[brant.Listener]:
    with inbox.db.listen("brant.inbox.dead") as listener:
        yield listener


def told(inbox: brant.Inbox, alerts: brant.Listener) -> list[Any]:
    """What the channel has heard until now."""
    inbox.db.notify("brant.inbox.dead", "until now")
    payloads = (each.payload for each in alerts)
    return list(iter(lambda: next(payloads), "until now"))


@pytest.mark.guarantee("G34")
def test_the_next_of_a_key_is_due_when_the_queue_gives_the_first_up(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    handled: list[str | None] = []
    endpoint.add_handler(lambda event, tx: handled.append(event.provider_event_id))
    first = put(endpoint, "a1")
    for event_id in ("a2", "a3"):
        put(endpoint, event_id)
    crash(inbox, clock)
    work(inbox)
    assert (status(inbox, first), handled, jobs(inbox), inbox.recover()) == ("dead", ["a2", "a3"], 0, 0)


def test_the_next_of_a_key_has_all_its_attempts(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    endpoint.add_handler(lambda event, tx: 1 / 0)
    put(endpoint, "a1")
    second = put(endpoint, "a2")
    crash(inbox, clock)
    assert work(inbox) == {"retry": 1}
    clock.advance(10)
    assert work(inbox) == {"dead": 1}
    assert (inbox.get_event(second).attempt_count, dead_jobs(inbox)) == (2, 2)


def test_a_delivery_that_waits_for_its_replay_is_what_the_next_job_runs(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    handled: list[tuple[str | None, int | None]] = []
    endpoint.add_handler(lambda event, tx: handled.append((event.provider_event_id, event.replayed_delivery)))
    replayed = put(endpoint, "a1")
    work(inbox)
    put(endpoint, "a2")
    [delivery] = inbox.list_deliveries(event_id=replayed)
    inbox.replay_delivery(delivery.id)
    crash(inbox, clock)
    work(inbox)
    assert handled == [("a1", None), ("a1", delivery.id)]


def test_a_key_whose_event_has_a_job_gets_no_second_one(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    endpoint.add_handler(lambda event, tx: None)
    first = put(endpoint, "a1")
    for event_id in ("a2", "a3"):
        put(endpoint, event_id)
    inbox.db.queue(QUEUE).enqueue({"event_id": first + 2})
    crash(inbox, clock)
    assert inbox.db.queue(QUEUE).claim_one("looks") is not None
    assert (status(inbox, first), jobs(inbox)) == ("dead", 1)


def test_those_who_listen_are_told_of_an_event_that_the_queue_gives_up(
    inbox: brant.Inbox, clock: FakeClock, alerts: brant.Listener
) -> None:
    endpoint = tiny(inbox, retry=TWICE)
    event_id = send(endpoint, "e1")
    crash(inbox, clock)
    work(inbox)
    [heard] = told(inbox, alerts)
    assert heard == {
        "event_id": event_id,
        "endpoint": "in",
        "event_type": "t",
        "error": inbox.get_event(event_id).last_error,
    }


def test_an_event_that_its_handler_gives_up_is_told_of_once(inbox: brant.Inbox, alerts: brant.Listener) -> None:
    endpoint = tiny(inbox, ordering_key="provider", retry=RetryPolicy(max_attempts=1))
    endpoint.add_handler(lambda event, tx: 1 / 0)
    ids = [put(endpoint, "a1"), put(endpoint, "a2")]
    assert work(inbox) == {"dead": 2}
    assert [heard["event_id"] for heard in told(inbox, alerts)] == ids


def test_a_database_of_an_older_version_is_brought_up(
    inbox: brant.Inbox, clock: FakeClock, path: Path, database_kind: str, alerts: brant.Listener
) -> None:
    with inbox.db.transaction() as tx:
        for sql in OLDER_TRIGGER[database_kind]:
            tx.execute(sql)
    with brant.open(path, clock=clock) as db, brant.Inbox(db) as newer:
        event_id = send(tiny(newer, retry=TWICE), "e1")
        crash(newer, clock)
        work(newer)
        assert (status(newer, event_id), len(told(newer, alerts))) == ("dead", 1)
