"""Adyen's payment webhooks: each item of the batch is signed for itself, by eight of its fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from brant.errors import InvalidValue
from brant.inbox.providers.base import Answer, Incoming, Rejected, at, body_key, incoming, packed
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.signatures import NO_MATCH, any_match, decoded, digest, encoded
from brant.inbox.request import Request

_FIELDS = (
    ("pspReference",),
    ("originalReference",),
    ("merchantAccountCode",),
    ("merchantReference",),
    ("amount", "value"),
    ("amount", "currency"),
    ("eventCode",),
    ("success",),
)


class Adyen(BatchProvider):
    """The secret is the HMAC key in hex. Only the eight fields are vouched for: read the others with care.

    The same payment can first fail and then succeed, so `success` is part of the key.
    """

    name = "adyen"
    is_quick = True
    most_items = 100  # each is a signature to be checked
    accepted = Answer(body=b"[accepted]")

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:  # noqa: ARG002
        items = _items(request)
        if not items or len(items) > self.most_items:
            raise Rejected("the body is no batch of notification items")
        keys = [_key(secret) for secret in secrets]
        valid = [any_match(keys, [_message(item)], _signature(item)) for item in items]
        if not all(valid):
            raise Rejected(NO_MATCH)

    def check_secret(self, secret: bytes) -> None:
        _key(secret)

    def items(self, request: Request) -> list[Any]:
        return _items(request)

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        return _event(item)

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:  # noqa: ARG002
        """`body` is one NotificationRequestItem, or a whole batch; the signatures are put into it."""
        items = _items(Request(body)) or [Request(body).document()]
        key = _key(secret.encode() if isinstance(secret, str) else secret)
        for item in items:
            signature = encoded(digest(key, _message(item)), "base64")
            extra = at(item, "additionalData")
            item["additionalData"] = {**(extra if isinstance(extra, dict) else {}), "hmacSignature": signature}
        batch = {"live": "false", "notificationItems": [{"NotificationRequestItem": item} for item in items]}
        return self.draft(json.dumps(batch).encode(), facts, ("content-type", "application/json"))


def _items(request: Request) -> list[dict[str, Any]]:
    """Every item; none at all if one of them is something else, so that nothing unsigned slips through."""
    given = at(request.document(), "notificationItems")
    found = [at(one, "NotificationRequestItem") for one in given] if isinstance(given, list) else []
    return found if all(isinstance(item, dict) for item in found) else []


def _event(item: dict[str, Any]) -> Incoming:
    reference, kind, body = at(item, "pspReference"), at(item, "eventCode"), packed(item)
    found = incoming(
        reference,
        kind,
        str(at(item, "success")).lower(),
        event_id=reference,
        event_type=kind,
        body=body,
        ordering_key=at(item, "originalReference") or reference,
    )
    return found if found.dedupe_key else incoming(body_key(body), event_type=kind, body=body)


def _message(item: dict[str, Any]) -> bytes:
    return ":".join(_spelled(at(item, *path)) for path in _FIELDS).encode("utf-8", "surrogatepass")


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if not isinstance(value, (str, int)):
        raise Rejected("a field that is signed is no text")
    return str(value)


def _signature(item: dict[str, Any]) -> list[bytes]:
    given = at(item, "additionalData", "hmacSignature")
    raw = decoded(given, "base64") if isinstance(given, str) else None
    return [] if raw is None else [raw]


def _key(secret: bytes) -> bytes:
    raw = decoded(secret.decode("ascii", "replace").strip().lower(), "hex")
    if not raw:
        raise InvalidValue("adyen's HMAC key must be hex")
    return raw
