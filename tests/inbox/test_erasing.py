"""Content that was erased stays away, whoever sends it again."""

from __future__ import annotations

import pytest

import brant
from brant.inbox import Endpoint, RetentionPolicy
from brant.testing import FakeClock
from tests.inbox.tiny import send, signed, status, tiny, work

pytestmark = pytest.mark.both_backends


@pytest.fixture
def endpoint(inbox: brant.Inbox) -> Endpoint:
    made = tiny(inbox)
    made.add_handler(lambda event, tx: None)
    return made


def contents(inbox: brant.Inbox, event_id: int) -> list[tuple[bytes | None, int, int]]:
    """Of its deliveries, oldest first: the body, and how many headers and parameters there are."""
    found = inbox.list_deliveries(event_id=event_id, with_body=True)
    return [(each.body, len(each.headers.pairs), len(each.query)) for each in reversed(found)]


def erased_counts(inbox: brant.Inbox) -> list[int]:
    return [audit.summary["contents_erased"] for audit in reversed(inbox.list_prune_audits())]


@pytest.mark.parametrize("way", ["asked for", "retention"])
def test_a_redelivery_of_an_erased_event_is_stored_without_its_content(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock, way: str
) -> None:
    event_id = send(endpoint, "e1", query="jane=doe")
    work(inbox)
    clock.advance(2)
    if way == "retention":
        inbox.retain(RetentionPolicy(content_s={"handled": 1}))
    else:
        inbox.erase(event_id)
    assert send(endpoint, "e1", query="jane=doe") == event_id
    assert contents(inbox, event_id) == [(b"", 0, 0)] * 2
    assert (status(inbox, event_id), work(inbox)) == ("handled", {})


def test_what_came_with_an_erased_event_is_handled_and_its_delivery_is_empty(
    inbox: brant.Inbox, endpoint: Endpoint
) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    inbox.erase(event_id)
    both = b'[{"id": "e1", "type": "t"}, {"id": "e2", "type": "t"}]'
    received = endpoint.receive(both, signed(both))
    assert contents(inbox, event_id) == [(b"", 0, 0)] * 2
    assert work(inbox) == {"success": 1}
    assert b"e2" in (inbox.get_event(received.event_ids[1]).body or b"")


def test_to_erase_again_erases_what_has_come_since(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    inbox.erase(event_id)
    send(endpoint, "e1")
    with inbox.db.transaction() as tx:  # as an older version stored it
        tx.execute('UPDATE knocker_deliveries SET query_json = \'{"jane": ["doe"]}\' WHERE event_id = ?', [event_id])
    inbox.erase(event_id)
    assert contents(inbox, event_id) == [(b"", 0, 0)] * 2
    inbox.erase(event_id)
    assert erased_counts(inbox) == [1, 1, 0]
    assert inbox.db.query("SELECT body_bytes FROM _brant_inbox_erased")[0]["body_bytes"] == 25
