"""Several inboxes in one process, on one database: each event goes to the one that has its endpoint."""

from __future__ import annotations

import gc

import pytest

import brant
from brant.inbox import Endpoint
from tests.inbox.tiny import send, status, tiny, work

pytestmark = pytest.mark.both_backends


@pytest.fixture
def handled() -> list[str]:
    return []


def handling(inbox: brant.Inbox, name: str, handled: list[str]) -> Endpoint:
    endpoint = tiny(inbox, name)
    endpoint.add_handler(lambda event, tx: handled.append(f"{name} {event.provider_event_id}"))
    return endpoint


def test_an_inbox_without_endpoints_takes_no_events(inbox: brant.Inbox, handled: list[str]) -> None:
    endpoint = handling(inbox, "in", handled)
    with brant.Inbox(inbox.db) as of_a_page:
        event_id = send(endpoint, "e1")
        assert of_a_page.counts()["in"]["received"] == 1
        assert work(inbox) == {"success": 1}
    assert (status(inbox, event_id), handled) == ("handled", ["in e1"])


def test_each_event_goes_to_the_inbox_that_has_its_endpoint(inbox: brant.Inbox, handled: list[str]) -> None:
    ours = handling(inbox, "ours", handled)
    with brant.Inbox(inbox.db) as other:
        theirs = handling(other, "theirs", handled)
        for n in range(3):
            send(ours, f"{n}")
            send(theirs, f"{n}")
            assert work(inbox) == {"success": 2}
    assert sorted(handled) == [f"{name} {n}" for name in ("ours", "theirs") for n in range(3)]


def test_an_inbox_that_only_receives_leaves_the_events_to_the_one_with_the_handler(
    inbox: brant.Inbox, handled: list[str]
) -> None:
    handling(inbox, "in", handled)
    with brant.Inbox(inbox.db) as receiving:
        event_id = send(tiny(receiving, "in"), "e1")
        assert work(inbox) == {"success": 1}
    assert (status(inbox, event_id), handled) == ("handled", ["in e1"])


def test_of_two_inboxes_with_the_same_endpoint_the_newer_one_handles(inbox: brant.Inbox, handled: list[str]) -> None:
    tiny(inbox).add_handler(lambda event, tx: handled.append("older"))
    with brant.Inbox(inbox.db) as newer:
        endpoint = tiny(newer)
        endpoint.add_handler(lambda event, tx: handled.append("newer"))
        send(endpoint, "e1")
        work(inbox)
    assert handled == ["newer"]


def test_an_inbox_that_nobody_holds_any_more_has_no_say(timed: brant.Database, handled: list[str]) -> None:
    handling(brant.Inbox(timed), "in", handled)
    gc.collect()
    with brant.Inbox(timed) as inbox:
        endpoint = handling(inbox, "in", handled)
        send(endpoint, "e1")
        assert work(inbox) == {"success": 1}
