"""Paddle Billing: `Paddle-Signature: ts=...;h1=...`, built like Stripe's with other separators."""

from __future__ import annotations

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.providers.stripe import Stripe
from brant.inbox.request import Request


class Paddle(Stripe):
    """The secret is the whole `pdl_ntfset_...` text. Five seconds are Paddle's own limit."""

    name = "paddle"
    success_status = 200
    options = {"tolerance_s": 5.0}  # noqa: RUF012
    header = "Paddle-Signature"
    separators = (";", ":")
    names = ("ts", "h1")

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        event_id, kind = at(document, "event_id"), at(document, "event_type")
        delivery = at(document, "notification_id")
        found = incoming(event_id, event_id=event_id, delivery_id=delivery, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]
