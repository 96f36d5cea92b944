"""What counts as the same event: two events of one object are two, and one that is sent again is one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from brant.inbox import providers
from brant.inbox.providers.base import Incoming, key_of
from brant.inbox.request import Headers, Request
from tests.inbox.senders import NOW, SENDERS


def _sent(name: str, body: object, *, now: float = NOW, **facts: str) -> Request:
    return SENDERS[name].request(now, body if isinstance(body, bytes) else json.dumps(body).encode(), **facts)


def _events(name: str, request: Request, **options: Any) -> list[Incoming]:
    return providers.provider(name, **{**SENDERS[name].options, **options}).events(request)


def _key(name: str, body: object, *, now: float = NOW, **facts: str) -> str:
    (event,) = _events(name, _sent(name, body, now=now, **facts))
    assert event.dedupe_key
    return event.dedupe_key


def _adyen(**changes: object) -> dict[str, object]:
    return {**json.loads(SENDERS["adyen"].body), **changes}


TWO_EVENTS_OF_ONE_OBJECT: dict[str, tuple[object, object]] = {
    "adyen": (_adyen(), _adyen(eventCode="CAPTURE")),
    "asana": (
        {"events": [{"action": "added", "resource": {"gid": "1"}}]},
        {"events": [{"action": "changed", "resource": {"gid": "1"}}]},
    ),
    "discord": ({"type": 2, "id": "i1"}, {"type": 2, "id": "i2"}),
    "okta": (
        {"data": {"events": [{"uuid": "1", "eventType": "a"}]}},
        {"data": {"events": [{"uuid": "2", "eventType": "a"}]}},
    ),
    "xero": (
        {"events": [{"resourceId": "r1", "eventType": "UPDATE"}], "firstEventSequence": 1},
        {"events": [{"resourceId": "r1", "eventType": "UPDATE"}], "firstEventSequence": 2},
    ),
    "github": ({"action": "opened", "number": 1}, {"action": "closed", "number": 1}),
    "gitlab": ({"object_kind": "push", "after": "a"}, {"object_kind": "push", "after": "b"}),
    "hmac": ({"id": "o1", "status": "open"}, {"id": "o1", "status": "paid"}),
    "hubspot": (
        [{"eventId": 1, "objectId": 5, "subscriptionType": "a"}],
        [{"eventId": 2, "objectId": 5, "subscriptionType": "a"}],
    ),
    "intercom": ({"id": "n1", "data": {"item": {"id": 5}}}, {"id": "n2", "data": {"item": {"id": 5}}}),
    "lemon-squeezy": (
        {"meta": {"event_name": "a"}, "data": {"id": "1"}},
        {"meta": {"event_name": "b"}, "data": {"id": "1"}},
    ),
    "linear": (
        {"action": "update", "data": {"id": "i1", "title": "a"}},
        {"action": "update", "data": {"id": "i1", "title": "b"}},
    ),
    "mailgun": ({"event-data": {"id": "e1", "event": "opened"}}, {"event-data": {"id": "e2", "event": "opened"}}),
    "meta": (
        {"object": "page", "entry": [{"id": "1", "time": 1}]},
        {"object": "page", "entry": [{"id": "1", "time": 2}]},
    ),
    "microsoft-graph": ({"value": [{"id": "n1", "resource": "r"}]}, {"value": [{"id": "n2", "resource": "r"}]}),
    "paddle": ({"event_id": "e1", "data": {"id": "t1"}}, {"event_id": "e2", "data": {"id": "t1"}}),
    "paypal": ({"id": "WH-1", "resource": {"id": "p"}}, {"id": "WH-2", "resource": {"id": "p"}}),
    "postmark": (
        {"MessageID": "m", "RecordType": "Open", "ReceivedAt": "t1"},
        {"MessageID": "m", "RecordType": "Click", "ReceivedAt": "t1"},
    ),
    "sendgrid": ([{"sg_event_id": "1", "sg_message_id": "m"}], [{"sg_event_id": "2", "sg_message_id": "m"}]),
    "shopify": ({"id": 1, "updated_at": "a"}, {"id": 1, "updated_at": "b"}),
    "slack": ({"event_id": "Ev1", "event": {"channel": "C"}}, {"event_id": "Ev2", "event": {"channel": "C"}}),
    "square": ({"event_id": "e1", "data": {"id": "p"}}, {"event_id": "e2", "data": {"id": "p"}}),
    "stripe": ({"id": "evt_1", "data": {"object": {"id": "ch"}}}, {"id": "evt_2", "data": {"object": {"id": "ch"}}}),
    "twilio": (b"MessageSid=SM1&MessageStatus=sent", b"MessageSid=SM1&MessageStatus=delivered"),
    "x": ({"tweet_create_events": [{"id": 1}]}, {"tweet_create_events": [{"id": 2}]}),
    "zoom": (
        {"event": "joined", "event_ts": 1, "payload": {"object": {"id": 1, "participant": "a"}}},
        {"event": "joined", "event_ts": 1, "payload": {"object": {"id": 1, "participant": "b"}}},
    ),
}


@pytest.mark.parametrize("name", TWO_EVENTS_OF_ONE_OBJECT)
@pytest.mark.guarantee("G30")
def test_two_events_of_one_object_are_two(name: str) -> None:
    first, second = TWO_EVENTS_OF_ONE_OBJECT[name]

    assert _key(name, first) != _key(name, second)


@pytest.mark.parametrize("name", TWO_EVENTS_OF_ONE_OBJECT)
@pytest.mark.guarantee("G30")
def test_an_event_sent_again_later_is_one(name: str) -> None:
    body, _ = TWO_EVENTS_OF_ONE_OBJECT[name]

    assert _key(name, body) == _key(name, body, now=NOW + 3600)


@pytest.mark.parametrize("name", ["standard-webhooks", "gitlab-signing", "twitch", "aws-sns"])
def test_the_senders_own_message_id_decides(name: str) -> None:
    same = {"type": "user.updated", "data": {"id": "u1"}}

    assert _key(name, same, event_id="m1") != _key(name, same, event_id="m2")
    assert _key(name, same, event_id="m1") == _key(name, same, event_id="m1", now=NOW + 3600)


@pytest.mark.parametrize("name", ["github", "shopify", "linear"])
@pytest.mark.guarantee("G30")
def test_a_captured_request_under_a_new_unsigned_id_is_the_same_event(name: str) -> None:
    body = {"id": 1, "webhookTimestamp": 1714000000000}

    assert _key(name, body, event_id="d1") == _key(name, body, event_id="d2")


@pytest.mark.parametrize("name", ["github", "shopify", "linear"])
def test_the_unsigned_id_can_be_chosen_to_count_with_the_body(name: str) -> None:
    keys = [
        _events(name, _sent(name, body, event_id=event_id), identity="delivery")[0].dedupe_key
        for body, event_id in (({"a": 1}, "d1"), ({"a": 1}, "d2"), ({"a": 2}, "d1"), ({"a": 1}, "d1"))
    ]

    assert len(set(keys)) == 3
    assert keys[0] == keys[3]


def test_linear_stamps_each_attempt_anew_and_it_is_one_event() -> None:
    first = {"type": "Issue", "action": "update", "data": {"id": "i1"}, "webhookTimestamp": 1714000000000}

    assert _key("linear", first) == _key("linear", {**first, "webhookTimestamp": 1714003600000})


def test_zendesk_triggers_with_the_same_text_are_told_apart_by_their_invocation() -> None:
    body = {"ticket_id": 5}

    assert _key("zendesk", body, event_id="i1") != _key("zendesk", body, event_id="i2")
    assert _key("zendesk", body, event_id="i1") == _key("zendesk", body, event_id="i1", now=NOW + 60)


def test_zendesk_events_go_by_their_own_id() -> None:
    body = {"type": "zen:event-type:ticket.created", "id": "e1"}

    assert _key("zendesk", body, event_id="i1") == _key("zendesk", body, event_id="i2") == "e1"


def test_a_payment_that_failed_and_then_succeeded_is_two_events() -> None:
    assert _key("adyen", _adyen(success="false")) != _key("adyen", _adyen(success="true"))


def test_a_graph_notification_that_says_nothing_of_its_own_has_no_key() -> None:
    (event,) = _events("microsoft-graph", _sent("microsoft-graph", {"resource": "/me/drive/root"}))

    assert event.dedupe_key is None
    assert event.body is not None
    assert b"clientState" not in event.body


def test_gitlab_goes_by_the_idempotency_key() -> None:
    body = {"object_kind": "push"}

    assert _key("gitlab", body, event_id="k1") != _key("gitlab", body, event_id="k2")
    assert _key("gitlab", body, event_id="k1") == "k1"


def test_an_id_in_the_signed_body_counts_alone_and_one_in_a_header_with_the_body() -> None:
    in_body = providers.provider("hmac", id_field="event.id", type_field="event.kind")
    in_header = providers.provider("hmac", id_header="X-Id", type_header="X-Type")
    request = Request.of('{"event":{"id":7,"kind":"paid"}}', {"X-Id": "d1", "X-Type": "sent"})

    assert in_body.events(request) == [Incoming("7", "7", None, "paid")]
    (event,) = in_header.events(request)
    assert event.dedupe_key
    assert event.dedupe_key.startswith("d1|sha256:")
    assert (event.event_id, event.event_type) == ("d1", "sent")


@pytest.mark.guarantee("G30")
def test_the_signed_body_counts_and_a_query_that_nobody_signed_does_not() -> None:
    body = {"id": 1, "webhookTimestamp": 1714000000000}

    for name in ("github", "shopify", "linear", "hmac", "lemon-squeezy"):
        assert _key(name, body) == _key(name, body, query="again=1")


def test_a_type_in_a_header_counts_where_no_id_does() -> None:
    provider = providers.provider("hmac", type_header="X-Type", id_field="id")
    paid, sent, named = (
        provider.events(Request.of(body, {"X-Type": kind}))[0].dedupe_key
        for body, kind in (("{}", "paid"), ("{}", "sent"), ('{"id":"7"}', "sent"))
    )

    assert paid != sent
    assert named == "7"


@pytest.mark.guarantee("G30")
def test_another_topic_of_shopify_with_an_equal_body_is_another_event() -> None:
    body = {"id": 1, "financial_status": "paid"}
    created, paid = (
        _key("shopify", body, event_type=topic, event_id="d1") for topic in ("orders/create", "orders/paid")
    )
    assert created != paid
    assert paid == _key("shopify", body, event_type="orders/paid", event_id="d2")


def test_a_request_of_github_under_another_name_is_no_other_event() -> None:
    """The name is not signed, and the bodies of GitHub's events differ by themselves."""
    body = {"ref": "refs/heads/main"}
    assert _key("github", body, event_type="push") == _key("github", body, event_type="create")


def test_twilio_by_get_says_in_the_query_what_happened() -> None:
    provider = SENDERS["twilio"].provider()
    sent, delivered, again = (
        provider.events(Request.of(method="GET", query=f"MessageSid=SM1&MessageStatus={state}"))[0]
        for state in ("sent", "delivered", "sent")
    )

    assert (sent.event_id, sent.event_type) == ("SM1", "sent")
    assert sent == again
    assert sent.dedupe_key != delivered.dedupe_key


def test_who_has_the_token_may_name_the_id_in_a_header() -> None:
    provider = providers.provider("bearer", id_header="X-Id")

    assert provider.events(Request.of("{}", {"X-Id": "d1"}))[0].dedupe_key == "d1"


BATCHES: dict[str, tuple[object, list[str]]] = {
    "sendgrid": ([{"sg_event_id": "a", "event": "open"}, {"sg_event_id": "b", "event": "click"}], ["open", "click"]),
    "hubspot": (
        [{"eventId": 1, "subscriptionType": "contact.creation"}, {"eventId": 2, "subscriptionType": "deal.creation"}],
        ["contact.creation", "deal.creation"],
    ),
    "meta": ({"object": "page", "entry": [{"id": "1"}, {"id": "2"}]}, ["page", "page"]),
    "adyen": (
        {"notificationItems": [{"NotificationRequestItem": _adyen(eventCode=code)} for code in ("CAPTURE", "REFUND")]},
        ["CAPTURE", "REFUND"],
    ),
    "microsoft-graph": (
        {"value": [{"id": "1", "changeType": "created"}, {"id": "2", "changeType": "deleted"}]},
        ["created", "deleted"],
    ),
    "asana": (
        {"events": [{"action": "added", "resource": {"resource_type": "task"}}, {"action": "deleted"}]},
        ["task.added", "deleted"],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_many_events_each_with_its_own_id_type_and_body(name: str) -> None:
    body, types = BATCHES[name]
    events = _events(name, _sent(name, body))

    assert [event.event_type for event in events] == types
    assert len({event.dedupe_key for event in events}) == 2
    assert all(event.body and json.loads(event.body) for event in events)


@pytest.mark.parametrize("name", ["sendgrid", "hubspot", "meta", "adyen", "microsoft-graph"])
def test_an_item_is_the_same_event_in_another_batch(name: str) -> None:
    body, _ = BATCHES[name]
    (items_name, items) = next(iter(body.items())) if name != "meta" and isinstance(body, dict) else ("", body)
    if isinstance(body, dict) and name == "meta":
        second: object = {**body, "entry": body["entry"][1:]}
    else:
        second = {items_name: items[1:]} if items_name else items[1:]  # type: ignore[index]

    both, alone = _events(name, _sent(name, body)), _events(name, _sent(name, second))

    assert [event.dedupe_key for event in alone] == [both[1].dedupe_key]


def test_a_hubspot_item_that_is_tried_again_is_one() -> None:
    item = {"subscriptionType": "a", "objectId": 1, "attemptNumber": 0}

    assert _key("hubspot", [item]) == _key("hubspot", [{**item, "attemptNumber": 3}])


TYPES: dict[str, tuple[object, dict[str, str], str]] = {
    "stripe": ({"id": "e", "type": "invoice.paid"}, {}, "invoice.paid"),
    "github": ({"action": "opened"}, {"event_type": "issues"}, "issues"),
    "slack": ({"type": "event_callback", "event": {"type": "message"}}, {}, "message"),
    "linear": ({"type": "Issue", "action": "update"}, {}, "Issue.update"),
    "shopify": ({"id": 1}, {"event_type": "orders/paid"}, "orders/paid"),
    "gitlab": ({"object_kind": "merge_request"}, {"event_type": "Merge Request Hook"}, "merge_request"),
    "lemon-squeezy": ({"meta": {"event_name": "order_created"}}, {"event_type": "order_refunded"}, "order_created"),
    "twilio": (b"CallSid=CA1&CallStatus=ringing", {}, "ringing"),
    "aws-sns": ({"a": 1}, {}, "Notification"),
    "discord": ({"type": 1, "event": {"type": "ENTITLEMENT_CREATE"}}, {}, "ENTITLEMENT_CREATE"),
    "paypal": ({"id": "WH", "event_type": "PAYMENT.SALE.COMPLETED"}, {}, "PAYMENT.SALE.COMPLETED"),
    "twitch": ({"subscription": {"type": "channel.follow"}}, {}, "channel.follow"),
    "x": ({"for_user_id": "1", "favorite_events": []}, {}, "favorite_events"),
    "zoom": ({"event": "meeting.ended"}, {}, "meeting.ended"),
}


@pytest.mark.parametrize("name", TYPES)
def test_the_type_is_where_the_provider_puts_it(name: str) -> None:
    body, facts, expected = TYPES[name]

    assert [event.event_type for event in _events(name, _sent(name, body, now=NOW, **facts))] == [expected]


def test_a_slash_command_and_an_interaction_have_types_too() -> None:
    command = Request.of("command=%2Fdeploy&trigger_id=1")
    interaction = Request.of("payload=%7B%22type%22%3A%22block_actions%22%7D")

    assert providers.provider("slack").events(command)[0].event_type == "/deploy"
    assert providers.provider("slack").events(interaction)[0].event_type == "block_actions"


def test_github_types_can_have_the_action() -> None:
    (event,) = _events("github", _sent("github", {"action": "opened"}, event_type="issues"), with_action=True)

    assert event.event_type == "issues.opened"


def test_a_repeated_id_header_names_nobody() -> None:
    request = Request(b"{}", Headers([("webhook-id", "a"), ("webhook-id", "b")]))

    assert providers.provider("standard-webhooks").events(request)[0].dedupe_key is None


def test_keys_of_different_parts_differ() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("a|b") != key_of("a", "b")
    assert key_of("a%7Cb") != key_of("a|b")
    assert key_of("a", None) is None
    assert key_of(1) == "1"
    assert key_of(True) is None


def test_keys_and_texts_from_senders_are_bounded_and_can_be_stored() -> None:
    body = {"id": "x" * 10_000, "type": "\ud800\0" + "t" * 10_000}
    (event,) = _events("stripe", _sent("stripe", body))

    assert event.dedupe_key
    assert event.event_id
    assert event.event_type
    assert max(map(len, (event.dedupe_key, event.event_id, event.event_type))) <= 300
    assert event.event_type.encode()
    assert "\0" not in event.event_type
