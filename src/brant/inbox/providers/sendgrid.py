"""SendGrid's event webhook: ECDSA over time and body; the body is a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.errors import InvalidValue
from brant.inbox.providers.asymmetric import ecdsa_matches, ecdsa_public_key, need_cryptography, private_signature
from brant.inbox.providers.base import Incoming, Rejected, at, body_key, incoming, packed, required_header
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.signatures import NO_MATCH, check_time, decoded, digits, encoded
from brant.inbox.request import Request

_SIGNATURE = "X-Twilio-Email-Event-Webhook-Signature"
_TIME = "X-Twilio-Email-Event-Webhook-Timestamp"


class SendGrid(BatchProvider):
    """The secret is the public key from the dashboard (base64, or PEM). One event an item, by its `sg_event_id`.

    SendGrid sets no limit of age; `tolerance_s` sets one.
    """

    name = "sendgrid"
    is_quick = True
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": None}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        need_cryptography(self.name)

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        signature = decoded(required_header(request, _SIGNATURE), "base64")
        timestamp = required_header(request, _TIME)
        check_time(digits(timestamp), now, self.settings["tolerance_s"])
        keys = [ecdsa_public_key(secret) for secret in secrets]
        if signature is None or not ecdsa_matches(keys, timestamp.encode() + request.body, signature):
            raise Rejected(NO_MATCH)

    def check_secret(self, secret: bytes) -> None:
        ecdsa_public_key(secret)

    def items(self, request: Request) -> list[Any]:
        return request.items()

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        body, event_id, kind = packed(item), at(item, "sg_event_id"), at(item, "event")
        found = incoming(
            event_id,
            event_id=event_id,
            delivery_id=at(item, "sg_message_id"),
            event_type=kind,
            body=body,
            ordering_key=at(item, "sg_message_id"),
        )
        return found if found.dedupe_key else incoming(body_key(body), event_type=kind, body=body)

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        """`secret` is the private key as PEM."""
        time, key = str(int(now)), secret.encode() if isinstance(secret, str) else secret
        if not key.startswith(b"-----"):
            raise InvalidValue("to sign for sendgrid, give the private key as PEM")
        signature = encoded(private_signature(key, time.encode() + body), "base64")
        return self.draft(body, facts, ("content-type", "application/json"), (_TIME, time), (_SIGNATURE, signature))
