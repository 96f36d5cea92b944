"""Requests as they come: repeated headers, and bodies that are not what they should be."""

from __future__ import annotations

import json

import pytest

from brant.inbox.providers.base import Incoming, Provider, Rejected, body_key
from brant.inbox.request import BodyError, Headers, Request
from brant.inbox.verification import INVALID, VERIFIED, Verification, identify, safe_reason, verify
from tests.inbox.senders import NOW, SENDERS, Sender

ODD_BODIES = {
    "empty": b"",
    "bad utf-8": b'{"id":"\xff"}',
    "nested too deeply": b"[" * 100_000,
    "nested almost too deeply": b'{"entry":[' + b"[" * 900 + b"]" * 900 + b"]}",
    "huge int": b'{"id":' + b"9" * 5000 + b"}",
    "huge float": b'[{"sg_event_id":1e999}]',
    "not a number": b'{"id":NaN}',
    "lone surrogate": b'{"id":"\\ud800","type":"\\udfff"}',
    "nul": b'{"id":"\\u0000","type":"\\u0000"}',
    "wrong shapes": b'{"id":{"a":1},"type":[1],"event":"x","entry":{},"value":7,"events":"x","signature":[]}',
    "odd items": b'[null,1,"x",[],{"sg_event_id":[]},true]',
    "odd notification items": b'{"notificationItems":[{"NotificationRequestItem":{"success":[1],"amount":3}}]}',
    "a byte order mark": b'\xef\xbb\xbf{"id":"1"}',
    "binary": bytes(range(256)),
    "many fields": b"a=1&" * 5000,
}
EACH_BODY = pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES)
EACH_SENDER = pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
BODIES_THAT_ARE_SIGNED_AS_THEY_ARE = [
    sender
    for sender in SENDERS.values()
    if sender.name not in ("adyen", "aws-sns", "brant", "linear", "mailgun", "microsoft-graph", "twilio", "x")
]


@EACH_SENDER
@EACH_BODY
def test_an_odd_body_raises_nowhere(sender: Sender, body: bytes) -> None:
    provider, headers = sender.provider(), sender.request().headers
    for method in ("POST", "GET"):
        request = Request(body, headers, method)

        provider.verify(request, sender.secrets(), NOW)
        provider.challenge(request, sender.secrets(), NOW)
        events = provider.events(request)

        assert events
        for event in events:
            texts = (event.dedupe_key, event.event_id, event.delivery_id, event.event_type, event.ordering_key)
            assert all(text is None or text.encode() for text in texts)


@pytest.mark.parametrize("sender", BODIES_THAT_ARE_SIGNED_AS_THEY_ARE, ids=lambda sender: sender.name)
@EACH_BODY
def test_an_odd_body_that_is_signed_rightly_is_verified(sender: Sender, body: bytes) -> None:
    assert verify(sender.provider(), sender.request(NOW, body), sender.secrets(), NOW).state == VERIFIED


def test_headers_are_found_in_any_case_and_keep_their_repeats() -> None:
    headers = Headers([("X-A", "1"), (b"x-a", b"2"), ("B", "\xe9")])

    assert headers.all("x-A") == ["1", "2"]
    assert headers.sole("X-A") is None
    assert headers.sole("b") == "\xe9"
    assert headers.sole("c") is None
    assert len(headers) == 3
    assert list(headers) == [("X-A", "1"), ("x-a", "2"), ("B", "\xe9")]


def test_headers_and_requests_show_no_values() -> None:
    request = Request.of(b"private", {"Authorization": "hunter2"}, query="token=hunter2")

    assert repr(request) == "<Request POST / 7 bytes>"
    assert "hunter2" not in repr(request.headers)


def test_a_request_can_be_made_of_mappings_and_texts() -> None:
    request = Request.of("{}", {"A": "1"}, method="post", query={"a": "1 2", "b": ""})

    assert (request.body, request.method, request.query) == (b"{}", "POST", "a=1+2&b=")
    assert request.parameter("a") == "1 2"
    assert request.parameter("b") == ""
    assert request.parameter("c") is None


def test_a_repeated_parameter_is_none() -> None:
    assert Request.of(query="a=1&a=2").parameter("a") is None


def test_json_is_parsed_once() -> None:
    request = Request.of(b'{"a":[1]}')

    assert request.json() is request.json()
    assert request.document() == {"a": [1]}
    assert request.items() == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff", "the body is not UTF-8"),
        (b"[" * 100_000, "the JSON of the body is nested too deeply"),
        (b"9" * 5000, "the body is not JSON"),
        (b"NaN", "the body is not JSON"),
        (b"", "the body is not JSON"),
    ],
)
def test_a_body_that_is_no_json_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(BodyError) as caught:
        Request(body).json()

    assert str(caught.value) == reason
    assert Request(body).document() == {}


class _Odd(Provider):
    name = "odd"

    def __init__(self, answer: object) -> None:
        super().__init__()
        self._answer = answer

    def check(self, request: Request, secrets: object, now: float) -> None:
        if isinstance(self._answer, Exception):
            raise self._answer

    def events(self, request: Request) -> list[Incoming]:
        raise LookupError("hunter2")


@pytest.mark.parametrize("error", [ValueError("hunter2"), KeyError("hunter2"), RecursionError("hunter2")])
def test_a_provider_that_fails_makes_the_request_invalid_and_tells_nothing(error: Exception) -> None:
    verdict = verify(_Odd(error), Request(), [b"s"], NOW)

    assert verdict == Verification(INVALID, f"the provider failed with {type(error).__name__}")
    assert not verdict.accepted


def test_a_provider_that_can_not_name_the_events_loses_none() -> None:
    assert identify(_Odd(None), Request(b"x")) == [Incoming(dedupe_key=body_key(b"x"))]


def test_a_body_that_a_provider_can_not_read_is_the_senders_fault() -> None:
    assert verify(_Odd(BodyError("the body is not JSON")), Request(), [b"s"], NOW) == Verification(
        INVALID, "the body is not JSON"
    )


def test_without_a_provider_nothing_is_verified() -> None:
    assert verify(None, Request(), [b"s"], NOW).state == INVALID


def test_a_reason_is_short_and_fit_for_a_log() -> None:
    verdict = verify(_Odd(Rejected("a\r\nforged line \x1b[31m " + "x" * 1000)), Request(), [b"s"], NOW)

    assert verdict.reason
    assert verdict.reason.startswith("a??forged line ?[31m x")
    assert len(verdict.reason) == 200
    assert safe_reason("\u202e") == "?"


def test_large_numbers_in_an_item_are_kept() -> None:
    item = b'[{"sg_event_id":"e","n":123456789012345678901234567890}]'
    (event,) = SENDERS["sendgrid"].provider().events(Request(item))

    assert event.body is not None
    assert json.loads(event.body)["n"] == 123456789012345678901234567890
