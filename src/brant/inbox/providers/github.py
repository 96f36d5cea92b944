"""GitHub: an HMAC of the body; the delivery id and the event's name are in headers that nobody signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class GitHub(SignedProvider):
    """A captured request sent again under a new delivery id is the same event, so the key is the body's hash.

    `identity="delivery"` adds the delivery id: two deliveries with equal bodies are two events then.
    `with_action=True` makes the type `issues.opened` instead of `issues`.
    """

    name = "github"
    header = "X-Hub-Signature-256"
    prefix = "sha256="
    options: ClassVar[Mapping[str, object]] = {"identity": "content", "with_action": False}

    def read_events(self, request: Request) -> list[Incoming]:
        delivery, kind = request.header("X-GitHub-Delivery"), request.header("X-GitHub-Event")
        if self.settings["with_action"] and kind and isinstance(action := at(request.document(), "action"), str):
            kind = f"{kind}.{action}"
        key = [delivery] if delivery and self.settings["identity"] == "delivery" else []
        return [incoming(*key, body_key(request.body), delivery_id=delivery, event_type=kind)]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            ("X-GitHub-Event", facts.get("event_type", "ping")),
            ("X-GitHub-Delivery", facts.get("event_id", f"test-{int(now)}")),
        )
