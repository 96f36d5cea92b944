"""Linear: an HMAC of the body, which holds the time of sending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from brant.inbox.providers.base import Incoming, Rejected, at, body_key, incoming, packed
from brant.inbox.providers.signatures import check_time
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Linear(SignedProvider):
    """The key is the hash of what is signed but the time of sending, which is another one on each retry.

    `identity="delivery"` adds the header Linear-Delivery, which nobody signed.
    """

    name = "linear"
    success_status = 200
    header = "Linear-Signature"
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 60.0, "identity": "content"}

    def check_freshness(self, request: Request, now: float) -> None:
        sent_ms = at(request.document(), "webhookTimestamp")
        if isinstance(sent_ms, bool) or not isinstance(sent_ms, int) or not 0 <= sent_ms < 10**15:
            raise Rejected("the body has no webhookTimestamp")
        check_time(sent_ms / 1000, now, self.settings["tolerance_s"])

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        delivery = request.header("Linear-Delivery")
        content = {name: value for name, value in document.items() if name != "webhookTimestamp"}
        key = [delivery] if delivery and self.settings["identity"] == "delivery" else []
        kind, action = at(document, "type"), at(document, "action")
        both = f"{kind}.{action}" if isinstance(kind, str) and isinstance(action, str) else kind
        unchanging = body_key(packed(content)) if content else body_key(request.body)
        return [
            incoming(*key, unchanging, delivery_id=delivery, event_type=both, ordering_key=at(document, "data", "id"))
        ]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        document = Request(body).document()
        if document and "webhookTimestamp" not in document:
            body = packed({**document, "webhookTimestamp": int(now * 1000)})
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            ("Linear-Delivery", facts.get("event_id", f"test-{int(now)}")),
        )
