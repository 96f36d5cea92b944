"""Which events a delivery of several brought is known for as long as there are such."""

from __future__ import annotations

from typing import Any

import pytest

import brant
from brant.inbox import Endpoint, RetentionPolicy
from brant.testing import FakeClock
from tests.inbox.tiny import signed, tiny, work

pytestmark = pytest.mark.both_backends

BOTH = b'[{"id": "a", "type": "t"}, {"id": "b", "type": "t"}]'
ALL_GONE = RetentionPolicy(keep_s={"handled": 0}, orphans_s=0)


def handling(inbox: brant.Inbox, **options: Any) -> Endpoint:
    endpoint = tiny(inbox, **options)
    endpoint.add_handler(lambda event, tx: None)
    return endpoint


def notes(inbox: brant.Inbox) -> list[int]:
    """The events that are noted, by delivery."""
    found = inbox.db.query("SELECT event_id FROM _brant_inbox_batches ORDER BY delivery_id, position")
    return [each["event_id"] for each in found]


def note_as_before(inbox: brant.Inbox, delivery_id: int | None) -> None:
    """As an older version did for events that were gone."""
    with inbox.db.transaction() as tx:
        tx.execute("INSERT INTO _brant_inbox_batches VALUES (?, 7, 999, 1)", [delivery_id])


def test_a_redelivery_of_what_is_gone_is_noted_nowhere(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = handling(inbox)
    received = endpoint.receive(BOTH, signed(BOTH))
    assert notes(inbox) == list(received.event_ids)
    work(inbox)
    for _ in range(3):
        clock.advance(10)
        inbox.retain(ALL_GONE)
        assert endpoint.receive(BOTH, signed(BOTH)).event_ids == received.event_ids
        assert notes(inbox) == []


def test_of_a_redelivery_only_what_is_still_there_is_noted(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = handling(inbox)
    first = b'{"id": "a", "type": "t"}'
    endpoint.receive(first, signed(first))
    work(inbox)
    clock.advance(10)
    inbox.retain(ALL_GONE)
    received = endpoint.receive(BOTH, signed(BOTH))
    assert notes(inbox) == [received.event_ids[1]]
    assert [each.event_id for each in inbox.list_deliveries()] == [received.event_ids[1]]


@pytest.mark.parametrize("way", ["retention", "pruned", "room"])
def test_a_delivery_that_goes_takes_its_notes_with_it(inbox: brant.Inbox, clock: FakeClock, way: str) -> None:
    endpoint = handling(inbox, max_orphans=1)
    if way == "pruned":
        received = endpoint.receive(BOTH, signed(BOTH))
        work(inbox)
    else:
        received = endpoint.receive(BOTH, [("X-Tiny", "forged")])
    note_as_before(inbox, received.delivery_id)
    clock.advance(10)
    if way == "room":
        endpoint.receive(BOTH, [("X-Tiny", "forged again")])
    else:
        inbox.retain(ALL_GONE)
    assert notes(inbox) == []
