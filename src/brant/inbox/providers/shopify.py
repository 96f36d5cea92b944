"""Shopify: an HMAC of the body; ids and topic are in headers that nobody signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from brant.inbox.providers.base import Incoming, body_key, incoming
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Shopify(SignedProvider):
    """One change of an order comes under several topics with one body, so the key is the topic and the body's hash.

    `identity="delivery"` adds the webhook id, which anybody could have changed.
    """

    name = "shopify"
    header = "X-Shopify-Hmac-Sha256"
    encoding = "base64"
    options: ClassVar[Mapping[str, object]] = {"identity": "content"}

    def read_events(self, request: Request) -> list[Incoming]:
        delivery = request.header("X-Shopify-Webhook-Id")
        topic = request.header("X-Shopify-Topic")
        key = [delivery] if delivery and self.settings["identity"] == "delivery" else []
        return [
            incoming(
                *key,
                *([topic] if topic else []),
                body_key(request.body),
                event_id=request.header("X-Shopify-Event-Id"),
                delivery_id=delivery,
                event_type=topic,
            )
        ]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            ("X-Shopify-Topic", facts.get("event_type", "orders/create")),
            ("X-Shopify-Webhook-Id", facts.get("event_id", f"test-{int(now)}")),
        )
