"""Xero: an HMAC of the body. A request without events asks whether signatures are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, packed
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Xero(BatchProvider, SignedProvider):
    """Events are numbered, and the number is signed. "Intent to receive" is answered with 200 if it is signed, else

    with 401, as Xero wants it; it is not stored.
    """

    name = "xero"
    header = "x-xero-signature"
    encoding = "base64"
    accepted = Answer()

    def items(self, request: Request) -> list[Any]:
        found = at(request.document(), "events")
        return found if isinstance(found, list) else []

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:
        body, parts = packed(item), [at(item, name) for name in ("eventCategory", "eventType")]
        kind = ".".join(parts) if all(isinstance(part, str) for part in parts) else None
        first = at(request.document(), "firstEventSequence")
        key = [first + place, body_key(body)] if type(first) is int else [body_key(body)]
        return incoming(*key, event_type=kind, body=body, ordering_key=at(item, "resourceId"))

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        return Answer() if at(request.document(), "events") == [] and self.valid(request, secrets, now) else None
