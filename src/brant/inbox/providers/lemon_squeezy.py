"""Lemon Squeezy: an HMAC of the body, which has no event id."""

from __future__ import annotations

from collections.abc import Mapping

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class LemonSqueezy(SignedProvider):
    """The type is taken from the signed body, and from the header X-Event-Name only if it is not there."""

    name = "lemon-squeezy"
    success_status = 200
    aliases = ("lemonsqueezy",)
    header = "X-Signature"

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        kind = at(document, "meta", "event_name") or request.header("X-Event-Name")
        return [incoming(body_key(request.body), event_type=kind, ordering_key=at(document, "data", "id"))]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:  # noqa: ARG002
        return self.draft(body, facts, ("content-type", "application/json"), ("X-Event-Name", facts.get("event_type")))
