"""Requests with many events: how much of them is built and stored, for whoever sends them."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

import brant
from brant.inbox.request import Request
from brant.testing import FakeClock
from tests.inbox.senders import NOW, SENDERS

pytestmark = pytest.mark.both_backends
MANY = 5001
BATCHES: dict[str, Any] = {
    "adyen": lambda items: {"notificationItems": [{"NotificationRequestItem": {"n": item}} for item in items]},
    "asana": lambda items: {"events": items},
    "hubspot": lambda items: items,
    "meta": lambda items: {"object": "A" * 40_000, "entry": items},
    "microsoft-graph": lambda items: {"value": [{"n": item} for item in items]},
    "okta": lambda items: {"data": {"events": items}},
    "sendgrid": lambda items: items,
    "xero": lambda items: {"events": items},
}
CAPPED = ["asana", "hubspot", "meta", "okta", "sendgrid", "xero"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


def _endpoint(inbox: brant.Inbox, name: str, **options: Any) -> brant.inbox.Endpoint:
    sender = SENDERS[name]
    if "verify" not in options:
        options["secrets"] = sender.secrets()
    return inbox.endpoint(name, provider=name, options=dict(sender.options), **options)


def _body(name: str, count: int) -> bytes:
    return json.dumps(BATCHES[name](list(range(count))), separators=(",", ":")).encode()


def _receive(endpoint: brant.inbox.Endpoint, request: Request) -> brant.inbox.Received:
    return endpoint.receive(request.body, request.headers.pairs, query=request.query)


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_nobody_signed_costs_little_memory(inbox: brant.Inbox, name: str) -> None:
    endpoint, body = _endpoint(inbox, name), _body(name, 20_000)
    endpoint.receive(b"{}")
    tracemalloc.start()
    try:
        received = endpoint.receive(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert received.status_code == 401
    assert peak < 8 * 1024 * 1024 + 20 * len(body)


@pytest.mark.parametrize("name", CAPPED)
def test_a_signed_batch_of_more_than_5000_is_refused_whole(inbox: brant.Inbox, name: str) -> None:
    shape = BATCHES[name](list(range(MANY)))
    if name == "meta":
        shape["object"] = "page"
    received = _receive(_endpoint(inbox, name), SENDERS[name].request(NOW, json.dumps(shape).encode()))
    assert (received.status_code, received.reason) == (401, "the body holds more than 5000 events")
    assert inbox.list_events() == []


@pytest.mark.parametrize("name", CAPPED)
def test_where_nobody_verifies_so_many_are_stored_as_one(inbox: brant.Inbox, name: str) -> None:
    body = _body(name, MANY)
    received = _endpoint(inbox, name, verify="none").receive(body)
    assert len(received.event_ids) == 1
    assert inbox.get_event(received.event_ids[0]).body == body


def test_an_entry_of_meta_is_stored_with_its_object_alone(inbox: brant.Inbox) -> None:
    body = b'{"entry":[{"id":"1"},{"id":"2"}],"object":"page","more":"of the whole"}'
    received = _receive(_endpoint(inbox, "meta"), SENDERS["meta"].request(NOW, body))
    stored = [inbox.get_event(each).body for each in received.event_ids]
    assert stored == [b'{"object":"page","entry":[{"id":"1"}]}', b'{"object":"page","entry":[{"id":"2"}]}']


def test_an_object_of_meta_that_is_long_is_not_repeated_for_each_entry(inbox: brant.Inbox) -> None:
    body = _body("meta", 3)
    received = _receive(_endpoint(inbox, "meta"), SENDERS["meta"].request(NOW, body))
    assert [inbox.get_event(each).body for each in received.event_ids] == [body]


def test_headers_are_not_repeated_for_each_event_of_a_batch_until_the_disk_is_full(inbox: brant.Inbox) -> None:
    request = SENDERS["okta"].request(NOW, _body("okta", 2000)).adding(("X-Long", "a" * 60_000))
    received = _receive(_endpoint(inbox, "okta"), request)
    assert (received.status_code, received.reason) == (431, "the headers are too large for so many events")
    assert inbox.list_events() == []


def test_an_invalid_batch_is_a_delivery_with_the_ids_of_its_first_event(inbox: brant.Inbox) -> None:
    _endpoint(inbox, "okta").receive(b'{"data":{"events":[{"uuid":"u1","eventType":"a"},{"uuid":"u2"}]}}')
    [orphan] = inbox.list_deliveries(orphaned=True)
    assert (orphan.provider_event_id, orphan.dedupe_key, orphan.event_type) == ("u1", "u1", "a")
