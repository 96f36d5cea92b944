"""One valid request of every provider, and which parts of it the provider vouches for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from brant.inbox import providers
from brant.inbox.providers.base import Provider, Rejected
from brant.inbox.request import Request
from tests.inbox.keys import certificate, ec_key, ec_public_base64, ed25519_key, ed25519_public, private_pem, rsa_key

NOW = 1_714_000_000.0
SECRET = b"a secret of the sender"
URL = "https://example.com/hooks"
TOPIC = "arn:aws:sns:us-east-1:123456789012:orders"
SNS_CERTIFICATE = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-test.pem"
PAYPAL_CERTIFICATE = "https://api.paypal.com/v1/notifications/certs/CERT-test"
JSON = b'{"id":"evt_1","type":"order.paid","data":{"id":"o1"}}'
_ADYEN_ITEM = {
    "pspReference": "7914073381342284",
    "merchantAccountCode": "TestMerchant",
    "merchantReference": "order-1",
    "amount": {"value": 1130, "currency": "EUR"},
    "eventCode": "AUTHORISATION",
    "success": "true",
}


def fetch(url: str) -> bytes:
    if url not in (SNS_CERTIFICATE, PAYPAL_CERTIFICATE):
        raise Rejected("the certificate's host answered 404")
    return _certificate()


@cache
def _certificate() -> bytes:
    return certificate(NOW)


@dataclass(frozen=True)
class Sender:
    """`headers` are those that count; `signed` are texts of the body that count, or None for every byte of it."""

    name: str
    headers: tuple[str, ...] = ()
    body: bytes = JSON
    options: Mapping[str, object] = field(default_factory=dict)
    secret: Callable[[], bytes] = lambda: SECRET
    signing: Callable[[], bytes] = lambda: SECRET
    signed: Callable[[Request], list[bytes]] | None = None

    def provider(self) -> Provider:
        return providers.provider(self.name, **self.options)

    @property
    def signs_the_body(self) -> bool:
        return self.signed is not _nothing

    def secrets(self) -> list[bytes]:
        return [self.secret()]

    def request(self, now: float = NOW, body: bytes | None = None, **facts: str) -> Request:
        """Made anew only for what is asked: signing with RSA takes longer than all the rest of a test."""
        return _signed(self.name, self.body if body is None else body, now, tuple(facts.items()))

    def places(self, request: Request) -> list[int]:
        """The positions in the body whose bytes count."""
        if self.signed is None:
            return list(range(len(request.body)))
        found: list[int] = []
        for text in self.signed(request):
            start = request.body.index(text)
            found.extend(range(start, start + len(text)))
        return found


@cache
def _signed(name: str, body: bytes, now: float, facts: tuple[tuple[str, str], ...]) -> Request:
    sender = SENDERS[name]
    return sender.provider().sign(body, sender.signing(), now, **dict(facts))


def _nothing(_request: Request) -> list[bytes]:
    return []


def _texts(*paths: str) -> Callable[[Request], list[bytes]]:
    def find(request: Request) -> list[bytes]:
        found = []
        for path in paths:
            value: object = request.json()
            for name in path.split("."):
                value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]
            found.append(json.dumps(value).strip('"').encode())
        return found

    return find


def _adyen_fields() -> list[str]:
    item = "notificationItems.0.NotificationRequestItem."
    names = ("pspReference", "merchantAccountCode", "merchantReference", "amount.value", "amount.currency")
    return [item + name for name in (*names, "eventCode", "success", "additionalData.hmacSignature")]


def _rsa() -> bytes:
    return private_pem(rsa_key())


STANDARD = ("webhook-id", "webhook-timestamp", "webhook-signature")
_SNS = ("Message", "MessageId", "Timestamp", "TopicArn", "Type", "Signature", "SignatureVersion", "SigningCertURL")
_PAYPAL = ("PAYPAL-TRANSMISSION-ID", "PAYPAL-TRANSMISSION-TIME", "PAYPAL-TRANSMISSION-SIG")
_SENDGRID = ("X-Twilio-Email-Event-Webhook-Signature", "X-Twilio-Email-Event-Webhook-Timestamp")
_TWITCH = ("Twitch-Eventsub-Message-Id", "Twitch-Eventsub-Message-Timestamp", "Twitch-Eventsub-Message-Signature")

SENDERS = {
    sender.name: sender
    for sender in (
        Sender(
            "adyen",
            body=json.dumps(_ADYEN_ITEM).encode(),
            secret=lambda: b"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
            signing=lambda: b"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
            signed=_texts(*_adyen_fields()),
        ),
        Sender("asana", ("X-Hook-Signature",), b'{"events":[{"action":"changed"}]}'),
        Sender(
            "aws-sns",
            options={"topic_arn": TOPIC, "fetch": fetch},
            secret=lambda: b"",
            signing=_rsa,
            signed=_texts(*_SNS),
        ),
        Sender(
            "basic-auth",
            ("Authorization",),
            secret=lambda: b"user:pass word",
            signing=lambda: b"user:pass word",
            signed=_nothing,
        ),
        Sender("bearer-token", ("Authorization",), signed=_nothing),
        Sender(
            "brant",
            STANDARD,
            b'{"type":"brant.events","node":"east","topic":"t","events":'
            b'[{"offset":1,"key":"k","created_at":1.5,"payload":{}}]}',
            secret=lambda: b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            signing=lambda: b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ),
        Sender(
            "discord",
            ("X-Signature-Ed25519", "X-Signature-Timestamp"),
            b'{"type":2,"id":"i1"}',
            secret=lambda: ed25519_public().hex().encode(),
            signing=lambda: ed25519_key().private_bytes_raw().hex().encode(),
        ),
        Sender("dropbox", ("X-Dropbox-Signature",), b'{"list_folder":{"accounts":["dbid:1"]}}'),
        Sender("github", ("X-Hub-Signature-256",)),
        Sender("gitlab", ("X-Gitlab-Token",), signed=_nothing),
        Sender("gitlab-signing", STANDARD),
        Sender("hmac", ("X-Signature",)),
        Sender(
            "hubspot",
            ("X-HubSpot-Signature-v3", "X-HubSpot-Request-Timestamp"),
            b'[{"eventId":1,"subscriptionType":"contact.creation"}]',
            {"url": URL},
        ),
        Sender("intercom", ("X-Hub-Signature",)),
        Sender("lemon-squeezy", ("X-Signature",)),
        Sender("linear", ("Linear-Signature",), b'{"type":"Issue","action":"update","webhookTimestamp":1714000000000}'),
        Sender(
            "mailgun",
            body=b'{"event-data":{"id":"m1","event":"opened"}}',
            signed=_texts("signature.timestamp", "signature.token", "signature.signature"),
        ),
        Sender("meta", ("X-Hub-Signature-256",), b'{"object":"page","entry":[{"id":"1","time":2}]}'),
        Sender(
            "microsoft-graph",
            body=b'{"value":[{"id":"n1","changeType":"updated"}]}',
            signed=_texts("value.0.clientState"),
        ),
        Sender(
            "okta",
            ("Authorization",),
            b'{"eventType":"com.okta.event_hook","data":{"events":[{"uuid":"u1","eventType":"user.session.start"}]}}',
            signed=_nothing,
        ),
        Sender("paddle", ("Paddle-Signature",)),
        Sender(
            "paypal",
            (*_PAYPAL, "PAYPAL-CERT-URL", "PAYPAL-AUTH-ALGO"),
            options={"webhook_id": "WH-1", "fetch": fetch},
            secret=lambda: b"",
            signing=_rsa,
        ),
        Sender(
            "postmark",
            ("Authorization",),
            b'{"RecordType":"Open","MessageID":"m1","ReceivedAt":"2026-01-01T00:00:00Z"}',
            secret=lambda: b"user:password",
            signing=lambda: b"user:password",
            signed=_nothing,
        ),
        Sender(
            "sendgrid",
            _SENDGRID,
            b'[{"event":"open","sg_event_id":"e1"}]\r\n',
            secret=ec_public_base64,
            signing=lambda: private_pem(ec_key()),
        ),
        Sender("shopify", ("X-Shopify-Hmac-Sha256",)),
        Sender("slack", ("X-Slack-Signature", "X-Slack-Request-Timestamp")),
        Sender("square", ("x-square-hmacsha256-signature",), options={"url": URL}),
        Sender(
            "standard-webhooks",
            STANDARD,
            secret=lambda: b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            signing=lambda: b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ),
        Sender("stripe", ("Stripe-Signature",)),
        Sender("token-header", ("X-Knocker-Token",), signed=_nothing),
        Sender("twilio", ("X-Twilio-Signature",), b"CallSid=CA1&CallStatus=ringing&Digits=", {"url": URL}),
        Sender("twitch", _TWITCH, b'{"subscription":{"type":"channel.follow"}}'),
        Sender("x", ("x-twitter-webhooks-signature",), b'{"for_user_id":"1","tweet_create_events":[{"id":2}]}'),
        Sender(
            "xero",
            ("x-xero-signature",),
            b'{"events":[{"resourceId":"r1","eventCategory":"INVOICE","eventType":"UPDATE"}],"firstEventSequence":7}',
        ),
        Sender(
            "zendesk",
            ("X-Zendesk-Webhook-Signature", "X-Zendesk-Webhook-Signature-Timestamp"),
        ),
        Sender("zoom", ("x-zm-signature", "x-zm-request-timestamp"), b'{"event":"meeting.started","event_ts":1}'),
    )
}
