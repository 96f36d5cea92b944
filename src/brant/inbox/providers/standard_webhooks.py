"""Standard Webhooks 1.0, and those who send it under Svix's header names: Svix, Clerk, Resend and many more."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from brant.errors import InvalidValue
from brant.inbox.providers.asymmetric import ed25519_matches, ed25519_sign, need_cryptography
from brant.inbox.providers.base import Incoming, Provider, Rejected, at, incoming, required_header
from brant.inbox.providers.signatures import NO_MATCH, any_match, check_time, decoded, digest, digits, encoded, few
from brant.inbox.request import Request

_PUBLIC, _PRIVATE, _SHARED = b"whpk_", b"whsk_", b"whsec_"
_TIME_IN_ID = re.compile(r"\.\d{9,}(?:\.|\Z)", re.ASCII)


class StandardWebhooks(Provider):
    """`whsec_` secrets verify v1 (HMAC), `whpk_` keys verify v1a (Ed25519); the id is signed and kept over retries."""

    name = "standard-webhooks"
    is_quick = True
    aliases: ClassVar[tuple[str, ...]] = ("svix", "clerk", "resend", "standardwebhooks")
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 300.0}
    families: ClassVar[tuple[str, ...]] = ("webhook", "svix")

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        family = self.family(request)
        event_id = required_header(request, f"{family}-id")
        timestamp = required_header(request, f"{family}-timestamp")
        parts = few(required_header(request, f"{family}-signature").split(" "))
        if _TIME_IN_ID.search(event_id) or not event_id.isascii():
            # What was signed as the id "a", the time 1714000000 and a body that begins with "1714000001." would also
            # be the id "a.1714000000", the time 1714000001 and the rest of the body.
            raise Rejected(f"the header {family}-id could be read as an id and a time, or is not ASCII")
        check_time(digits(timestamp), now, self.settings["tolerance_s"])
        message = _message(event_id, timestamp, request.body)
        shared = [self.key(secret) for secret in secrets if not secret.startswith((_PUBLIC, _PRIVATE))]
        public = [_public_key(secret) for secret in secrets if secret.startswith((_PUBLIC, _PRIVATE))]
        matches = any_match(shared, [message], _signatures(parts, "v1,"))
        if public:
            matches |= ed25519_matches(public, message, _signatures(parts, "v1a,"))
        if not matches:
            raise Rejected(NO_MATCH)

    def family(self, request: Request) -> str:
        """Which set of headers was sent: id, time and signature must be of the same one."""
        for family in self.families:
            if request.headers.all(f"{family}-signature"):
                return family
        return self.families[0]

    def key(self, secret: bytes) -> bytes:
        return _base64_secret(secret.removeprefix(_SHARED))

    def check_secret(self, secret: bytes) -> None:
        if secret.startswith((_PUBLIC, _PRIVATE)):
            need_cryptography("a key of Standard Webhooks v1a")
            _public_key(secret)
        else:
            self.key(secret)

    def read_events(self, request: Request) -> list[Incoming]:
        event_id = request.header(f"{self.family(request)}-id")
        kind = at(request.document(), "type")
        return [incoming(event_id, event_id=event_id, delivery_id=event_id, event_type=kind)]

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        family = self.families[0]
        raw = secret.encode() if isinstance(secret, str) else secret
        event_id = facts.get("event_id") or f"msg_{hashlib.sha256(body).hexdigest()[:24]}"
        message = _message(event_id, str(int(now)), body)
        if raw.startswith(_PRIVATE):
            signature = (
                f"v1a,{encoded(ed25519_sign(_base64_secret(raw.removeprefix(_PRIVATE))[:32], message), 'base64')}"
            )
        else:
            signature = f"v1,{encoded(digest(self.key(raw), message), 'base64')}"
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            (f"{family}-id", event_id),
            (f"{family}-timestamp", str(int(now))),
            (f"{family}-signature", signature),
        )


def _message(event_id: str, timestamp: str, body: bytes) -> bytes:
    return b".".join((event_id.encode("ascii", "replace"), timestamp.encode(), body))


def _signatures(parts: list[str], version: str) -> list[bytes]:
    found = [decoded(part.removeprefix(version), "base64") for part in parts if part.startswith(version)]
    return [raw for raw in found if raw is not None]


def _public_key(secret: bytes) -> bytes:
    raw = decoded(secret[len(_PUBLIC) :].decode("ascii", "replace"), "base64") or b""
    public = raw[32:] if secret.startswith(_PRIVATE) else raw
    if len(public) != 32:
        raise InvalidValue("a whpk_ key has 32 bytes, a whsk_ key 64: its seed and the public key")
    return public


def _base64_secret(text: bytes) -> bytes:
    """With or without its padding, as senders hand it out."""
    try:
        raw = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raw = b""
    if not raw:
        raise InvalidValue("the secret must be base64, with or without 'whsec_' before it")
    return raw
