"""Every provider at an endpoint of a real inbox: stored once, and not at all if it is damaged."""

from __future__ import annotations

from typing import Any

import pytest

import brant
from brant.inbox.request import Headers, Request
from brant.testing import FakeClock
from tests.inbox.senders import NOW, SENDERS, Sender

EACH = pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
# What Dropbox sends of two changes may be the same to the last byte: each counts.
EACH_WITH_IDENTITY = pytest.mark.parametrize(
    "sender", [sender for sender in SENDERS.values() if sender.name != "dropbox"], ids=lambda sender: sender.name
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


def _endpoint(inbox: brant.Inbox, sender: Sender, **options: Any) -> None:
    secrets = sender.secrets() if sender.provider().needs_secret else None
    inbox.endpoint("hooks", provider=sender.name, options=dict(sender.options), secrets=secrets, **options)


def _receive(inbox: brant.Inbox, request: Request) -> brant.inbox.Received:
    return inbox.receive("hooks", request.body, request.headers.pairs, query=request.query, method=request.method)


@EACH_WITH_IDENTITY
def test_a_request_is_stored_and_sent_again_it_is_a_duplicate(inbox: brant.Inbox, sender: Sender) -> None:
    _endpoint(inbox, sender)
    first, again = (_receive(inbox, sender.request()) for _ in range(2))

    assert first.accepted
    assert again.accepted
    assert len(first.event_ids) == 1
    assert again.event_ids == first.event_ids
    assert (first.duplicate, again.duplicate) == (False, True)


def test_a_request_without_identity_counts_each_time(inbox: brant.Inbox) -> None:
    sender = SENDERS["dropbox"]
    _endpoint(inbox, sender)
    first, again = (_receive(inbox, sender.request()) for _ in range(2))

    assert first.event_ids != again.event_ids
    assert (first.duplicate, again.duplicate) == (False, False)


@pytest.mark.parametrize("name", ["lemon-squeezy", "linear", "mailgun", "paddle", "postmark"])
def test_those_who_take_only_200_for_success_get_it_unless_the_endpoint_says_otherwise(
    inbox: brant.Inbox, name: str
) -> None:
    sender = SENDERS[name]
    _endpoint(inbox, sender)
    first, again = (_receive(inbox, sender.request()) for _ in range(2))
    _endpoint(inbox, sender, success_status=202)
    chosen = _receive(inbox, sender.request())

    assert [each.status_code for each in (first, again, chosen)] == [200, 200, 202]
    assert first.body == b""


def test_others_get_204(inbox: brant.Inbox) -> None:
    _endpoint(inbox, SENDERS["stripe"])

    assert _receive(inbox, SENDERS["stripe"].request()).status_code == 204


@EACH
def test_a_damaged_request_gets_401_and_makes_no_event(inbox: brant.Inbox, sender: Sender) -> None:
    _endpoint(inbox, sender)
    request = sender.request()
    if sender.headers:
        damaged = Request(
            request.body, Headers([pair for pair in request.headers.pairs if pair[0] != sender.headers[-1]])
        )
    else:
        place = sender.places(request)[-1]
        damaged = Request(request.body[:place] + b"!" + request.body[place + 1 :], request.headers)

    received = _receive(inbox, damaged)

    assert received.status_code == 401
    assert received.event_ids == ()
    assert inbox.list_events() == []


def test_a_batch_is_one_delivery_and_many_events(inbox: brant.Inbox) -> None:
    sender = SENDERS["sendgrid"]
    _endpoint(inbox, sender)
    body = b'[{"event":"open","sg_event_id":"e1"},{"event":"click","sg_event_id":"e2"}]'
    later = b'[{"event":"click","sg_event_id":"e2"},{"event":"bounce","sg_event_id":"e3"}]'

    _receive(inbox, sender.request(NOW, body))
    _receive(inbox, sender.request(NOW, later))

    assert sorted(event.event_type or "" for event in inbox.list_events()) == ["bounce", "click", "open"]
