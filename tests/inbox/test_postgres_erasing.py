"""Erasing beside others who work on the same event: what was erased does not come back, and nothing runs without it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import brant
from brant.inbox import Endpoint
from tests.inbox.blocked import wait_until_blocked
from tests.inbox.tiny import send, status, tiny, work
from tests.servers import Server
from tests.waiting import PATIENCE_S, in_thread


@pytest.fixture
def path(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database(with_inbox=True) as address:
        yield address


@pytest.fixture
def endpoint(inbox: brant.Inbox) -> Endpoint:
    made = tiny(inbox)
    made.add_handler(lambda event, tx: None)
    return made


def sizes(inbox: brant.Inbox, event_id: int) -> list[int]:
    return [each.body_bytes for each in inbox.list_deliveries(event_id=event_id)]


def test_an_event_that_is_replayed_meanwhile_keeps_its_content(
    inbox: brant.Inbox, endpoint: Endpoint, path: str
) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    with psycopg.connect(path) as replaying:
        replaying.execute("UPDATE brant.knocker_events SET status = 'received' WHERE id = %s", [event_id])
        erasing = in_thread(inbox.erase, event_id)
        wait_until_blocked(path)
    with pytest.raises(ValueError, match="is received"):
        erasing.result(PATIENCE_S)
    assert (status(inbox, event_id), inbox.get_event(event_id).body_bytes) == ("received", 25)


def test_a_redelivery_that_is_just_being_stored_is_erased_too(
    inbox: brant.Inbox, endpoint: Endpoint, path: str
) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    with brant.open(path, clock=inbox.db.clock) as db, brant.Inbox(db) as elsewhere:
        tiny(elsewhere)
        with db.transaction() as coming:
            elsewhere.ingest("in", b'{"id": "e1", "type": "t"}', tx=coming)
            erasing = in_thread(inbox.erase, event_id)
            wait_until_blocked(path)
        erasing.result(PATIENCE_S)
    assert sizes(inbox, event_id) == [0, 0]


def test_a_redelivery_that_comes_while_its_event_is_erased_is_stored_without_content(
    inbox: brant.Inbox, endpoint: Endpoint, path: str
) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    with psycopg.connect(path) as erasing:
        erasing.execute("SELECT id FROM brant.knocker_events WHERE id = %s FOR UPDATE", [event_id])
        coming = in_thread(send, endpoint, "e1")
        wait_until_blocked(path)
        erasing.execute("INSERT INTO brant._brant_inbox_erased VALUES (%s, 0, '', 25)", [event_id])
    assert coming.result(PATIENCE_S) == event_id
    assert sizes(inbox, event_id) == [0, 25]
