"""Which requests are the same event, by what the request and the caller say."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import brant
from tests.inbox.tiny import SECRET, Tiny, jobs, send, signed, tiny

pytestmark = pytest.mark.both_backends

BODY = b'{"id": "e1", "type": "t"}'


def test_without_an_id_the_same_body_is_the_same_event(inbox: brant.Inbox) -> None:
    endpoint = inbox.endpoint("open", verify="none")
    assert [endpoint.receive(body).duplicate for body in (b"a", b"b", b"a")] == [False, False, True]


@pytest.mark.parametrize("options", [{"verify": "none"}, {"provider": "token-header", "secrets": "s"}])
@pytest.mark.guarantee("G30")
def test_without_an_id_another_query_or_method_is_another_event(inbox: brant.Inbox, options: dict[str, Any]) -> None:
    endpoint = inbox.endpoint("sms", methods=("GET", "POST"), **options)
    sent = [("GET", b"", "n=1"), ("GET", b"", "n=2"), ("POST", b"", "n=1"), ("POST", b"{}", "n=1"), ("POST", b"{}", "")]
    first, again = (
        [endpoint.receive(body, {"X-Knocker-Token": "s"}, method=method, query=query) for method, body, query in sent]
        for _ in range(2)
    )
    assert [each.duplicate for each in first] == [False] * 5
    assert [each.event_ids for each in again] == [each.event_ids for each in first]


@pytest.mark.parametrize("options", [{"verify": "none"}, {"provider": "token-header", "secrets": "s"}])
def test_a_request_that_says_nothing_is_an_event_each_time(inbox: brant.Inbox, options: dict[str, Any]) -> None:
    endpoint = inbox.endpoint("deploy", **options)
    received = [endpoint.receive(b"", {"X-Knocker-Token": "s"}) for _ in range(2)]
    assert [each.duplicate for each in received] == [False, False]
    assert len(inbox.list_events()) == jobs(inbox) == 2


def test_what_the_caller_says_goes_before_what_the_provider_reads(inbox: brant.Inbox) -> None:
    received = tiny(inbox).receive(
        BODY, signed(BODY), event_type="mine", provider_event_id="p1", provider_delivery_id="d1", dedupe_key="k1"
    )
    event = inbox.get_event(received.event_ids[0])
    facts = (event.event_type, event.provider_event_id, event.provider_delivery_id, event.dedupe_key)
    assert facts == ("mine", "p1", "d1", "k1")


@pytest.mark.guarantee("G30")
def test_a_delivery_id_of_the_caller_makes_no_other_event_of_the_same_one(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    assert send(endpoint, "e1", provider_delivery_id="d1") == send(endpoint, "e1", provider_delivery_id="d2")
    [event] = inbox.list_events()
    assert (event.dedupe_key, event.provider_delivery_id) == ("e1", "d1")


@pytest.mark.parametrize("options", [{"verify": "none"}, {"provider": Tiny(), "secrets": SECRET}])
def test_a_delivery_id_of_the_caller_counts_where_the_provider_finds_no_key(
    inbox: brant.Inbox, options: dict[str, Any]
) -> None:
    endpoint = inbox.endpoint("in", **options)
    received = [endpoint.receive(b"{}", signed(b"{}"), provider_delivery_id=each) for each in ("d1", "d2", "d1")]
    assert [each.duplicate for each in received] == [False, False, True]


@pytest.mark.parametrize("name", ["dedupe_key", "provider_event_id", "provider_delivery_id"])
@pytest.mark.parametrize("body", [b'[{"id": "a"}, {"id": "b"}, {"id": "c"}]', b'[{"n": 1}, {"n": 1}, {"n": 1}]'])
def test_a_key_of_the_caller_loses_no_event_of_a_batch(inbox: brant.Inbox, name: str, body: bytes) -> None:
    endpoint = tiny(inbox)
    first, again, other = (endpoint.receive(body, signed(body), **{name: key}) for key in ("r1", "r1", "r2"))
    assert len(set(first.event_ids)) == 3
    assert again.event_ids == first.event_ids
    by_its_own = name == "provider_delivery_id" and b"id" in body
    assert (other.event_ids == first.event_ids) == by_its_own


@pytest.mark.parametrize("fact", ["dedupe_key", "provider_event_id", "provider_delivery_id"])
def test_long_ids_are_told_apart_and_stored_everywhere(inbox: brant.Inbox, fact: str) -> None:
    endpoint = inbox.endpoint("open", verify="none", ordering_key=lambda request, incoming: "o" * 50_000)
    noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(500))
    keys = (f"{noise}1", f"{noise}2", f"{noise}1")
    received = [endpoint.receive(b"a", event_type=noise, **{fact: key}) for key in keys]
    assert [each.status_code for each in received] == [204] * 3
    assert [each.duplicate for each in received] == [False, False, True]
    event = inbox.get_event(received[0].event_ids[0])
    assert (len(event.dedupe_key or ""), len(event.event_type or "")) == (71, 200)
    assert inbox.find_event("open", keys[0]) == inbox.get_event(received[0].event_ids[0], with_body=False)
