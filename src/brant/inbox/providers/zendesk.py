"""Zendesk: an HMAC of time and body; the time is a date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from brant.inbox.providers.base import Incoming, at, body_key, incoming, required_header
from brant.inbox.providers.signatures import check_time, iso_moment, iso_text
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

_TIME = "X-Zendesk-Webhook-Signature-Timestamp"
_INVOCATION = "X-Zendesk-Webhook-Invocation-Id"


class Zendesk(SignedProvider):
    """Events have an id. A trigger's body is written by hand and may repeat: its invocation joins the key."""

    name = "zendesk"
    header = "X-Zendesk-Webhook-Signature"
    encoding = "base64"
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 300.0}

    def messages(self, request: Request) -> list[bytes]:
        timestamp = required_header(request, _TIME)
        iso_moment(timestamp)
        return [timestamp.encode() + request.body]

    def check_freshness(self, request: Request, now: float) -> None:
        check_time(iso_moment(required_header(request, _TIME)), now, self.settings["tolerance_s"])

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        delivery, kind = request.header(_INVOCATION), at(document, "type")
        is_event = isinstance(kind, str) and kind.startswith("zen:event-type:")
        event_id = at(document, "id") if is_event else None
        key = [event_id] if isinstance(event_id, str) else [part for part in (delivery, body_key(request.body)) if part]
        return [incoming(*key, event_id=event_id, delivery_id=delivery, event_type=kind)]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            (_TIME, iso_text(now)),
            (_INVOCATION, facts.get("event_id", f"test-{int(now)}")),
        )
