"""Ordering keys: at most one event of a key in flight, and in the order of arrival."""

from __future__ import annotations

import json

import pytest

import brant
from brant.inbox import Endpoint, Event, RetryPolicy, receive_bridge
from brant.inbox.providers.brant_node import BrantNode
from brant.testing import FakeClock
from tests.inbox.tiny import QUEUE, jobs, signed, status, tiny, work

pytestmark = pytest.mark.both_backends

Tx = brant.Transaction
BRIDGE_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def endpoint(inbox: brant.Inbox) -> Endpoint:
    return tiny(inbox, ordering_key="provider", retry=RetryPolicy(max_attempts=2, first_delay_s=10, jitter=0))


@pytest.fixture
def seen(endpoint: Endpoint) -> list[str | None]:
    """Handled ones, in order. One whose id ends in "!" fails."""
    handled: list[str | None] = []

    @endpoint.handle()
    def handle(event: Event, tx: Tx) -> None:
        handled.append(event.provider_event_id)
        if str(event.provider_event_id).endswith("!"):
            raise ValueError

    return handled


def put(endpoint: Endpoint, event_id: str, about: str) -> int:
    body = json.dumps({"id": event_id, "about": about}).encode()
    return endpoint.receive(body, signed(body)).event_ids[0]


@pytest.mark.guarantee("G34")
def test_only_the_first_of_a_key_has_a_job(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    for event_id, about in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
        put(endpoint, event_id, about)
    assert jobs(inbox) == 2


@pytest.mark.guarantee("G34")
def test_the_events_of_a_key_are_handled_in_order(
    inbox: brant.Inbox, endpoint: Endpoint, seen: list[str | None]
) -> None:
    for n in range(5):
        put(endpoint, f"a{n}", "a")
    assert work(inbox) == {"success": 5}
    assert seen == [f"a{n}" for n in range(5)]


@pytest.mark.guarantee("G34")
def test_a_retry_holds_up_its_key_and_no_other(
    inbox: brant.Inbox, endpoint: Endpoint, seen: list[str | None], clock: FakeClock
) -> None:
    for event_id, about in (("a1!", "a"), ("a2", "a"), ("b1", "b")):
        put(endpoint, event_id, about)
    work(inbox)
    assert seen == ["a1!", "b1"]
    clock.advance(10)
    work(inbox)
    assert seen == ["a1!", "b1", "a1!", "a2"]  # after its last attempt the first one is dead, and the next is due


@pytest.mark.parametrize("way", ["crashes", "operator", "pruned"])
@pytest.mark.guarantee("G34")
def test_a_key_goes_on_however_its_first_event_ends(
    inbox: brant.Inbox, endpoint: Endpoint, seen: list[str | None], clock: FakeClock, way: str
) -> None:
    first = put(endpoint, "a1!", "a")
    put(endpoint, "a2", "a")
    if way == "operator":
        inbox.ignore(first)
    elif way == "pruned":
        work(inbox)
        seen.clear()
        clock.advance(5)
        inbox.prune_events(statuses=["failed"], older_than=int(clock.now()))
    else:
        for _ in range(2):
            assert inbox.db.queue(QUEUE).claim_one("crashes") is not None
            clock.advance(61)
    work(inbox)
    assert seen == ["a2"]


def test_a_replay_of_an_earlier_one_waits_for_the_one_in_flight(
    inbox: brant.Inbox, endpoint: Endpoint, seen: list[str | None], clock: FakeClock
) -> None:
    first = put(endpoint, "a1", "a")
    work(inbox)
    put(endpoint, "a2!", "a")
    work(inbox)
    inbox.replay(first)
    assert jobs(inbox) == 1
    work(inbox)
    assert seen == ["a1", "a2!"]
    clock.advance(10)
    work(inbox)
    assert seen == ["a1", "a2!", "a2!", "a1"]


def test_one_that_waits_for_its_turn_is_not_taken_for_stuck(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    put(endpoint, "a1", "a")
    second = put(endpoint, "a2", "a")
    assert (inbox.recover(), jobs(inbox)) == (0, 1)
    with pytest.raises(ValueError, match="is received"):
        inbox.requeue(second)


def test_an_ordering_key_can_be_a_function(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, ordering_key=lambda request, incoming: str(incoming.event_id)[0])
    for event_id in ("a1", "a2", "b1"):
        put(endpoint, event_id, "")
    assert jobs(inbox) == 2


def leave_open(inbox: brant.Inbox, event_id: int) -> None:
    """As an older version did, or another program that brought the event to rest."""
    with inbox.db.transaction() as tx:
        tx.execute("UPDATE _brant_inbox_order SET open = 1 WHERE event_id = ?", [event_id])


@pytest.mark.parametrize("way", ["shared", "alone"])
@pytest.mark.guarantee("G34")
def test_an_event_at_rest_does_not_hold_its_key_up(inbox: brant.Inbox, endpoint: Endpoint, way: str) -> None:
    seen: list[str | None] = []

    async def waits(event: Event, tx: Tx) -> None:
        seen.append(event.provider_event_id)

    endpoint.add_handler(waits if way == "alone" else lambda event, tx: seen.append(event.provider_event_id))
    first = put(endpoint, "a1", "a")
    work(inbox)
    leave_open(inbox, first)
    put(endpoint, "a2", "a")
    work(inbox)
    assert (seen, jobs(inbox)) == (["a1", "a2"], 0)


@pytest.mark.guarantee("G34")
def test_events_that_are_done_when_they_are_stored_hold_no_key_up(inbox: brant.Inbox) -> None:
    bridge = receive_bridge(inbox, BRIDGE_SECRET, node="here", ordering_key="provider")
    sender = BrantNode(node="there")

    def come(offset: int) -> int:
        event = {"offset": offset, "key": None, "created_at": 1.0, "payload": offset}
        sent = {"type": "brant.events", "node": "there", "topic": "t", "events": [event]}
        now = inbox.db.clock.now()
        request = sender.sign(json.dumps(sent).encode(), BRIDGE_SECRET, now, event_id=f"b{offset}")
        return bridge.receive(request.body, request.headers.pairs).event_ids[0]

    ids = [come(offset) for offset in (1, 2, 3)]
    assert jobs(inbox) == 0
    assert inbox.db.query("SELECT event_id FROM _brant_inbox_order WHERE open = 1") == []
    bridge.add_handler(lambda event, tx: None)
    inbox.replay(ids[2])
    assert work(inbox) == {"success": 1}
    assert (status(inbox, ids[2]), jobs(inbox)) == ("handled", 0)
