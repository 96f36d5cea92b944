"""Several inboxes in one process, on one database: each event goes to the one that has its endpoint."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import brant
from brant.inbox import Endpoint, RetryPolicy
from brant.testing import FakeClock
from tests.inbox.tiny import outcomes, send, status, tiny, work

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


def test_an_event_that_another_process_still_tries_is_not_given_up(
    inbox: brant.Inbox, clock: FakeClock, path: Path
) -> None:
    hourly = RetryPolicy(max_attempts=40, first_delay_s=3600, max_delay_s=3600, jitter=0)
    endpoint = tiny(inbox, "in", retry=hourly)
    endpoint.add_handler(lambda event, tx: 1 / 0)
    with brant.open(path, clock=clock) as db, brant.Inbox(db) as elsewhere:
        tiny(elsewhere, "other")
        event_id = send(endpoint, "e1")
        for _ in range(30):
            assert work(inbox) == {"retry": 1}
            clock.advance(3600)
        assert work(elsewhere) == {"snooze": 1}
        assert (status(inbox, event_id), outcomes(inbox, event_id)) == ("failed", ["failed"] * 30)
        clock.advance(24 * 3600)
        assert work(elsewhere) == {"dead": 1}


def test_a_process_that_comes_up_after_a_long_stop_gives_nothing_up(
    inbox: brant.Inbox, clock: FakeClock, path: Path, handled: list[str]
) -> None:
    send(handling(inbox, "in", handled), "e1")
    clock.advance(25 * 3600)
    with brant.open(path, clock=clock) as db, brant.Inbox(db) as elsewhere:
        tiny(elsewhere, "other")
        assert work(elsewhere) == {"snooze": 1}
    clock.advance(60)
    assert work(inbox) == {"success": 1}
    assert handled == ["in e1"]
