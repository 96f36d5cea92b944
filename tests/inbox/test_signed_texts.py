"""What each provider signs, spelled out beside the code: so that signing and verifying can't be wrong together."""

from __future__ import annotations

import base64
import hmac
import json
import zlib
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from brant.inbox import providers
from brant.inbox.request import Request
from brant.inbox.verification import VERIFIED, verify
from tests.inbox.keys import rsa_key
from tests.inbox.senders import NOW, PAYPAL_CERTIFICATE, SECRET, SENDERS, URL

BODY = b'{"events":[{"id":"1"}]}'
TIME, TIME_MS, DATE = "1714000000", "1714000000000", "2024-04-24T23:06:40Z"


def _hex(message: bytes, algorithm: str = "sha256") -> str:
    return hmac.digest(SECRET, message, algorithm).hex()


def _base64(message: bytes, algorithm: str = "sha256") -> str:
    return base64.b64encode(hmac.digest(SECRET, message, algorithm)).decode()


BY_HAND: dict[str, dict[str, str]] = {
    "asana": {"X-Hook-Signature": _hex(BODY)},
    "bearer-token": {"Authorization": "Bearer a secret of the sender"},
    "gitlab": {"X-Gitlab-Token": "a secret of the sender"},
    "gitlab-signing": {
        "webhook-id": "m1",
        "webhook-timestamp": TIME,
        "webhook-signature": f"v1,{_base64(b'm1.' + TIME.encode() + b'.' + BODY)}",
    },
    "hubspot": {
        "X-HubSpot-Request-Timestamp": TIME_MS,
        "X-HubSpot-Signature-v3": _base64(b"POST" + URL.encode() + BODY + TIME_MS.encode()),
    },
    "lemon-squeezy": {"X-Signature": _hex(BODY)},
    "paddle": {"Paddle-Signature": f"ts={TIME};h1={_hex(TIME.encode() + b':' + BODY)}"},
    "token-header": {"X-Knocker-Token": "a secret of the sender"},
    "twitch": {
        "Twitch-Eventsub-Message-Id": "m1",
        "Twitch-Eventsub-Message-Timestamp": "2024-04-24T23:06:40.123456789Z",
        "Twitch-Eventsub-Message-Signature": f"sha256={_hex(b'm12024-04-24T23:06:40.123456789Z' + BODY)}",
    },
    "x": {"x-twitter-webhooks-signature": f"sha256={_base64(BODY)}"},
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_request_signed_by_hand_verifies(name: str) -> None:
    sender = SENDERS[name]

    assert verify(sender.provider(), Request.of(BODY, BY_HAND[name]), [SECRET], NOW).state == VERIFIED


def test_twilio_signs_each_distinct_value_of_a_field_in_order() -> None:
    fields = [("To", "+1 \u00e9"), ("Media", "b"), ("Media", "a"), ("Media", "b"), ("Body", "")]
    signature = _base64(f"{URL}BodyMediaaMediabTo+1 \u00e9".encode(), "sha1")
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8", "X-Twilio-Signature": signature}
    request = Request.of(urlencode(fields), headers)

    assert verify(SENDERS["twilio"].provider(), request, [SECRET], NOW).state == VERIFIED


def test_basic_credentials_are_user_and_password() -> None:
    # The example of RFC 7617.
    request = Request.of(b"", {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="})

    for name in ("basic-auth", "postmark"):
        assert verify(providers.provider(name), request, [b"Aladdin:open sesame"], NOW).state == VERIFIED


def test_adyens_own_example_verifies() -> None:
    item = {
        "pspReference": "7914073381342284",
        "originalReference": "",
        "merchantAccountCode": "TestMerchant",
        "merchantReference": "TestPayment-1407325143704",
        "amount": {"value": 1130, "currency": "EUR"},
        "eventCode": "AUTHORISATION",
        "success": "true",
        "additionalData": {"hmacSignature": "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},
    }
    request = Request.of(json.dumps({"notificationItems": [{"NotificationRequestItem": item}]}))
    key = b"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"

    assert verify(providers.provider("adyen"), request, [key], NOW).state == VERIFIED


def test_mailgun_signs_time_and_token() -> None:
    proof = {"timestamp": TIME, "token": "a" * 50, "signature": _hex(TIME.encode() + b"a" * 50)}
    request = Request.of(json.dumps({"signature": proof, "event-data": {"id": "1", "event": "opened"}}))

    assert verify(providers.provider("mailgun"), request, [SECRET], NOW).state == VERIFIED


def test_graph_repeats_the_client_state() -> None:
    request = Request.of(json.dumps({"value": [{"clientState": SECRET.decode(), "changeType": "updated"}]}))

    assert verify(providers.provider("graph"), request, [SECRET], NOW).state == VERIFIED


def test_paypal_signs_ids_time_and_checksum() -> None:
    message = f"t1|{DATE}|WH-1|{zlib.crc32(BODY) & 0xFFFFFFFF}".encode()
    headers = {
        "PAYPAL-TRANSMISSION-ID": "t1",
        "PAYPAL-TRANSMISSION-TIME": DATE,
        "PAYPAL-TRANSMISSION-SIG": base64.b64encode(rsa_key().sign(message, PKCS1v15(), SHA256())).decode(),
        "PAYPAL-CERT-URL": PAYPAL_CERTIFICATE,
        "PAYPAL-AUTH-ALGO": "SHA256withRSA",
    }

    assert verify(SENDERS["paypal"].provider(), Request.of(BODY, headers), (), NOW).state == VERIFIED
