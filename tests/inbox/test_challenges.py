"""Handshakes: answered when they are valid, and never for anybody who just asks."""

from __future__ import annotations

import base64
import hmac
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from brant.inbox import providers
from brant.inbox.providers.base import Answer
from brant.inbox.request import Request
from tests.inbox.keys import rsa_key
from tests.inbox.senders import NOW, SECRET, SENDERS, TOPIC


def _answer(name: str, request: Request, secrets: list[bytes] | None = None, **options: object) -> Answer | None:
    provider = providers.provider(name, **{**SENDERS[name].options, **options})
    return provider.challenge(request, SENDERS[name].secrets() if secrets is None else secrets, NOW)


def _signed(name: str, body: object, **facts: str) -> Request:
    return SENDERS[name].request(NOW, json.dumps(body).encode(), **facts)


SIGNED: dict[str, tuple[Request, int, bytes]] = {
    "slack": (_signed("slack", {"type": "url_verification", "challenge": "c 1"}), 200, b"c 1"),
    "discord": (_signed("discord", {"type": 1, "id": "1"}), 200, b'{"type":1}'),
    "twitch": (_signed("twitch", {"challenge": "c1"}, event_type="webhook_callback_verification"), 200, b"c1"),
    "asana": (_signed("asana", {"events": []}), 200, b""),
    "xero": (_signed("xero", {"events": [], "firstEventSequence": 0}), 200, b""),
}


@pytest.mark.parametrize("name", SIGNED)
def test_a_signed_handshake_is_answered(name: str) -> None:
    request, status, body = SIGNED[name]
    answer = _answer(name, request)

    assert answer is not None
    assert (answer.status, answer.body, answer.follow_up) == (status, body, None)


@pytest.mark.parametrize("name", SIGNED)
def test_a_handshake_that_is_not_signed_rightly_is_not_answered(name: str) -> None:
    request, _, _ = SIGNED[name]
    unsigned = Request(request.body, method="POST")
    wrong_key = SENDERS[name].secrets()[0][:-2] + b"00"

    assert _answer(name, unsigned) is None
    assert _answer(name, request, [wrong_key]) is None
    assert _answer(name, request, []) is None


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
def test_an_event_is_no_handshake(sender: object) -> None:
    name = sender.name  # type: ignore[attr-defined]

    assert _answer(name, SENDERS[name].request()) is None


def test_a_ping_of_discords_webhook_events_gets_204() -> None:
    answer = _answer("discord", _signed("discord", {"type": 0, "version": 1}))

    assert answer is not None
    assert answer.status == 204


def test_zoom_gets_its_token_encrypted() -> None:
    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}'
    provider = providers.provider("zoom")
    request = provider.sign(body, "zoom_secret", 1654503849)

    answer = provider.challenge(request, [b"another one", b"zoom_secret"], 1654503849)

    assert answer is not None
    assert answer.content_type == "application/json"
    assert json.loads(answer.body) == {
        "plainToken": "qgg8vlvZRS6UYooatFL8Aw",
        "encryptedToken": "46a324cfb7c2ec760e4cd561586a53aadb6fc7561eb8d626d6ee1b71d808b3c0",
    }
    assert provider.challenge(request, [b"another one"], 1654503849) is None


def test_meta_gets_its_challenge_for_the_right_token_only() -> None:
    def asked(token: str, method: str = "GET", mode: str = "subscribe") -> Answer | None:
        query = {"hub.mode": mode, "hub.verify_token": token, "hub.challenge": "1158201444"}
        return _answer("meta", Request.of(method=method, query=query), verify_token="the token")

    answer = asked("the token")

    assert answer is not None
    assert (answer.status, answer.body) == (200, b"1158201444")
    assert answer.content_type.startswith("text/plain")
    assert asked("another") is asked("") is asked("the token", "POST") is asked("the token", mode="x") is None


def test_meta_without_a_token_answers_nobody() -> None:
    query = {"hub.mode": "subscribe", "hub.verify_token": "", "hub.challenge": "1"}

    assert _answer("meta", Request.of(method="GET", query=query)) is None


def test_metas_token_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_TOKEN", "the token")
    query = {"hub.mode": "subscribe", "hub.verify_token": "the token", "hub.challenge": "1"}

    assert _answer("meta", Request.of(method="GET", query=query), verify_token="env:META_TOKEN") is not None


def test_x_gets_the_proof_for_its_token() -> None:
    answer = _answer("x", Request.of(method="GET", query={"crc_token": "abc"}), [b"consumer secret"])

    assert answer is not None
    proof = base64.b64encode(hmac.digest(b"consumer secret", b"abc", "sha256")).decode()
    assert json.loads(answer.body) == {"response_token": f"sha256={proof}"}
    assert _answer("x", Request.of(method="POST", query={"crc_token": "abc"})) is None
    assert _answer("x", Request.of(method="GET")) is None


def test_the_proof_for_x_can_not_be_used_to_sign_an_event() -> None:
    """X signs events with the same secret and in the same way, so whoever may choose the token could sign a body."""
    forged = '{"tweet_create_events":[{"id":1}]}'
    for token in (forged, " ", '"', "{", "a" * 500):
        assert _answer("x", Request.of(method="GET", query={"crc_token": token})) is None

    answer = _answer("x", Request.of(method="GET", query={"crc_token": "12345"}))
    assert answer is not None
    proof = json.loads(answer.body)["response_token"]
    request = Request.of("12345", {"x-twitter-webhooks-signature": proof})
    assert SENDERS["x"].provider().verify(request, [SECRET], NOW) == "the body is no JSON object"


def test_graph_gets_its_token_back_as_plain_text() -> None:
    answer = _answer("microsoft-graph", Request.of(query="validationToken=a%20%3Cb%3E"))

    assert answer is not None
    assert answer.body == b"a <b>"
    assert answer.content_type.startswith("text/plain")
    assert ("X-Content-Type-Options", "nosniff") in answer.headers
    assert _answer("microsoft-graph", Request.of(query={"validationToken": "x" * 5000})) is None


def test_asana_gets_its_secret_back_when_somebody_keeps_it() -> None:
    kept: list[str] = []

    def keep(secret: str) -> bool:
        kept.append(secret)
        return True

    request = Request.of(headers={"X-Hook-Secret": "b537207f20cbfa02357cf448134da559"})
    answer = _answer("asana", request, [], on_secret=keep)

    assert answer is not None
    assert answer.headers == (("X-Hook-Secret", "b537207f20cbfa02357cf448134da559"),)
    assert kept == ["b537207f20cbfa02357cf448134da559"]


def test_asana_is_refused_a_handshake_that_nobody_expects() -> None:
    request = Request.of(headers={"X-Hook-Secret": "chosen by anybody"})

    assert _answer("asana", request) is None
    assert _answer("asana", request, on_secret=lambda secret: False) is None
    assert _answer("asana", request, on_secret=lambda secret: None) is None


def test_asanas_secret_can_not_carry_a_header_of_its_own() -> None:
    request = Request.of(headers={"X-Hook-Secret": "a\r\nSet-Cookie: b"})

    assert _answer("asana", request, on_secret=lambda secret: True) is None


def test_intercom_may_ask_whether_the_address_is_there() -> None:
    assert _answer("intercom", Request.of(method="HEAD")) == Answer()


def _subscription(**changes: object) -> Request:
    request = SENDERS["aws-sns"].request(NOW, b"You have chosen...", event_type="SubscriptionConfirmation")
    return Request(json.dumps({**request.json(), **changes}).encode())


def test_a_subscription_is_confirmed_by_an_address_to_be_fetched_later() -> None:
    answer = _answer("aws-sns", _subscription())

    assert answer is not None
    assert answer.status == 200
    assert answer.follow_up == (
        f"https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=test"
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/?Action=ConfirmSubscription",
        "https://sns.us-east-1.amazonaws.com.evil.example/",
        "http://169.254.169.254/latest/meta-data",
        None,
    ],
)
def test_a_subscription_whose_address_was_changed_is_not_confirmed(url: object) -> None:
    assert _answer("aws-sns", _subscription(SubscribeURL=url)) is None


@pytest.mark.parametrize(
    "url",
    [
        f"https://evil.example/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=t",
        f"http://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=t",
        f"https://sns.us-east-1.amazonaws.com/?Action=DeleteTopic&TopicArn={TOPIC}",
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-east-1:1:other&Token=t",
    ],
)
def test_even_a_signed_address_is_followed_only_to_confirm_this_topic(url: str) -> None:
    document = {**_subscription().json(), "SubscribeURL": url}
    names = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    message = "".join(f"{name}\n{document[name]}\n" for name in names).encode()
    document["Signature"] = base64.b64encode(rsa_key().sign(message, PKCS1v15(), SHA256())).decode()
    request = Request(json.dumps(document).encode())

    assert SENDERS["aws-sns"].provider().verify(request, [], NOW) is None
    assert _answer("aws-sns", request) is None


def test_a_subscription_of_another_topic_is_not_confirmed() -> None:
    assert _answer("aws-sns", _subscription(), topic_arn="arn:aws:sns:us-east-1:1:other") is None


def test_a_challenge_with_odd_characters_raises_nothing() -> None:
    request = _signed("slack", {"type": "url_verification", "challenge": "\ud800"})

    assert _answer("slack", request, [SECRET]) == Answer(body=b"?")


@pytest.mark.parametrize(
    ("name", "query", "headers", "body"),
    [
        ("dropbox", "challenge=abc-1", [], b"abc-1"),
        ("okta", "", [("X-Okta-Verification-Challenge", "abc-1")], b'{"verification": "abc-1"}'),
    ],
)
def test_a_challenge_by_get_is_echoed(name: str, query: str, headers: list[tuple[str, str]], body: bytes) -> None:
    answer = _answer(name, Request.of(b"", headers, method="GET", query=query))
    assert answer is not None
    assert (answer.status, answer.body) == (200, body)
    assert _answer(name, Request.of(b"", headers, method="POST", query=query)) is None


@pytest.mark.parametrize("token", ["<script>", "a" * 513, "", "a b"])
def test_a_challenge_that_could_be_more_than_a_token_is_not_echoed(token: str) -> None:
    headers = [("X-Okta-Verification-Challenge", token)]
    assert _answer("okta", Request.of(b"", headers, method="GET")) is None
    assert _answer("dropbox", Request.of(b"", method="GET", query={"challenge": token})) is None
