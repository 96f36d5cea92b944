"""Discord: interactions and webhook events, signed with Ed25519."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.errors import InvalidValue
from brant.inbox.providers.asymmetric import ed25519_matches, ed25519_sign, need_cryptography
from brant.inbox.providers.base import Answer, Incoming, Provider, Rejected, at, body_key, incoming, required_header
from brant.inbox.providers.signatures import NO_MATCH, check_time, decoded, digits
from brant.inbox.request import Request

_SIGNATURE, _TIME = "X-Signature-Ed25519", "X-Signature-Timestamp"
_INTERACTION_PING, _EVENT_PING = 1, 0


class Discord(Provider):
    """The secret is the application's public key in hex. Discord sends bad signatures on purpose, to be refused."""

    name = "discord"
    is_quick = True
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": None}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        need_cryptography(self.name)

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        signature = decoded(required_header(request, _SIGNATURE), "hex")
        timestamp = required_header(request, _TIME)
        check_time(digits(timestamp), now, self.settings["tolerance_s"])
        keys = [_key(secret) for secret in secrets]
        if signature is None or not ed25519_matches(keys, timestamp.encode() + request.body, [signature]):
            raise Rejected(NO_MATCH)

    def check_secret(self, secret: bytes) -> None:
        _key(secret)

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        if isinstance(at(document, "event"), dict):  # a webhook event: it has a time, but no id
            return [incoming(body_key(request.body), event_type=at(document, "event", "type"))]
        event_id, kind = at(document, "id"), at(document, "type")
        found = incoming(event_id, event_id=event_id, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        document = request.document()
        kind = at(document, "type")
        ping = type(kind) is int and kind in (_INTERACTION_PING, _EVENT_PING) and "event" not in document
        if not ping or not self.valid(request, secrets, now):
            return None
        if kind == _EVENT_PING:
            return Answer(status=204)
        return Answer(body=b'{"type":1}', content_type="application/json")

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        """`secret` is the private key: 32 bytes in hex."""
        time = str(int(now))
        signature = ed25519_sign(_key(secret.encode() if isinstance(secret, str) else secret), time.encode() + body)
        return self.draft(
            body, facts, ("content-type", "application/json"), (_TIME, time), (_SIGNATURE, signature.hex())
        )


def _key(secret: bytes) -> bytes:
    raw = decoded(secret.decode("ascii", "replace").strip().lower(), "hex")
    if raw is None or len(raw) != 32:
        raise InvalidValue("discord's key must be 32 bytes in hex")
    return raw
