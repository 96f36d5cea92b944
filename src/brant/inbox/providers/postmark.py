"""Postmark signs nothing: it sends Basic credentials that were put into the webhook's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.providers.basic import Basic
from brant.inbox.request import Request

_TIMES = ("DeliveredAt", "BouncedAt", "ReceivedAt", "ChangedAt", "Date")


class Postmark(Basic):
    """The secret is `user:password`. One message has many events: delivered, opened, each click, for each recipient."""

    name = "postmark"
    success_status = 200
    aliases: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, Any]] = {}

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        message, kind = at(document, "MessageID"), at(document, "RecordType")
        time = next((document[name] for name in _TIMES if document.get(name)), None)
        return [
            incoming(
                *(part for part in (message, kind, time) if isinstance(part, str) and part),
                body_key(request.body),
                event_id=at(document, "ID") or message,
                event_type=kind or ("Inbound" if message else None),
                ordering_key=message,
            )
        ]
