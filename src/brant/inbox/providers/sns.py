"""AWS SNS: a signature inside the body, made with a certificate from an address of AWS."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import SplitResult, parse_qs

from brant.inbox.providers.asymmetric import check_certificate_signature, need_cryptography, private_signature
from brant.inbox.providers.base import Answer, Incoming, Provider, Rejected, at, body_key, incoming
from brant.inbox.providers.fetching import Certificates, allowed
from brant.inbox.providers.signatures import check_time, decoded, encoded, iso_moment, iso_text
from brant.inbox.request import Request

_HOSTS = re.compile(r"sns\.[a-z0-9-]{1,40}\.amazonaws\.com(\.cn)?", re.ASCII)
_PATH = re.compile(r"/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem", re.ASCII)
_HASHES = {"1": "sha1", "2": "sha256"}
_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}


class AwsSns(Provider):
    """Anybody can own a topic and have it signed by AWS, so `topic_arn` names those that may send.

    `fetch` gets the certificate: a callable from its URL to its PEM.
    """

    name = "aws-sns"
    aliases = ("sns",)
    needs_secret = False
    options: ClassVar[Mapping[str, object]] = {"topic_arn": (), "fetch": None, "tolerance_s": None}
    required = ("topic_arn",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        need_cryptography(self.name)
        self._certificates = Certificates(self.settings["fetch"])

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:  # noqa: ARG002
        document = request.document()
        message = _message(document)
        if at(document, "TopicArn") not in self.settings["topic_arn"]:
            raise Rejected("the topic is none of those that may send")
        algorithm = _HASHES.get(str(at(document, "SignatureVersion")))
        given = at(document, "Signature")
        signature = decoded(given, "base64") if isinstance(given, str) else None
        if algorithm is None or signature is None:
            raise Rejected("the body has no signature of a known version")
        check_time(iso_moment(at(document, "Timestamp")), now, self.settings["tolerance_s"])
        url = at(document, "SigningCertURL")
        parts = allowed(url, _HOSTS)
        if parts is None or not _PATH.fullmatch(parts.path) or parts.query:
            raise Rejected("SigningCertURL is no address of AWS SNS")
        check_certificate_signature(self._certificates.get(url, now), message, signature, algorithm, now)

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        event_id, kind = at(document, "MessageId"), at(document, "Type")
        found = incoming(event_id, kind, event_id=event_id, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        """A subscription is confirmed by a GET of SubscribeURL: it is handed out, and not fetched here."""
        document = request.document()
        if at(document, "Type") != "SubscriptionConfirmation" or not self.valid(request, secrets, now):
            return None
        url = at(document, "SubscribeURL")
        parts = allowed(url, _HOSTS)
        if parts is None or not _confirms(parts, document["TopicArn"]):
            return None
        return Answer(follow_up=url)

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        """A notification whose message is `body`; `secret` is the private key of the certificate, as PEM."""
        document = {
            "Type": facts.get("event_type", "Notification"),
            "MessageId": facts.get("event_id", f"test-{int(now)}"),
            "TopicArn": self.settings["topic_arn"][0],
            "Message": body.decode("utf-8", "replace"),
            "Timestamp": iso_text(now),
            "SignatureVersion": "2",
            "SigningCertURL": "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-test.pem",
        }
        if document["Type"] != "Notification":
            document["Token"] = "test"  # noqa: S105
            document["SubscribeURL"] = (
                "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription"
                f"&TopicArn={document['TopicArn']}&Token=test"
            )
        key = secret.encode() if isinstance(secret, str) else secret
        document["Signature"] = encoded(private_signature(key, _message(document)), "base64")
        return self.draft(json.dumps(document).encode(), facts, ("content-type", "text/plain; charset=UTF-8"))


def _message(document: Mapping[str, Any]) -> bytes:
    kind = document.get("Type")
    lines = []
    for name in _SIGNED.get(kind, ()) if isinstance(kind, str) else ():
        value = document.get(name)
        if value is None and name == "Subject":
            continue
        if not isinstance(value, str):
            raise Rejected(f"the body has no {name}")
        lines.append(f"{name}\n{value}\n")
    if not lines:
        raise Rejected("the body is no message of SNS")
    return "".join(lines).encode("utf-8", "surrogatepass")


def _confirms(parts: SplitResult, topic: str) -> bool:
    query = parse_qs(parts.query)
    return query.get("Action") == ["ConfirmSubscription"] and query.get("TopicArn") == [topic]
