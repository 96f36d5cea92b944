"""Square: an HMAC of the notification URL and the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Square(SignedProvider):
    """`url` is the notification URL exactly as in Square's dashboard. The event's id is in the signed body."""

    name = "square"
    header = "x-square-hmacsha256-signature"
    encoding = "base64"
    options: ClassVar[Mapping[str, object]] = {"url": ()}
    required = ("url",)

    def messages(self, request: Request) -> list[bytes]:
        return [url.encode("utf-8", "surrogatepass") + request.body for url in self.settings["url"]]

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        event_id, kind = at(document, "event_id"), at(document, "type")
        found = incoming(event_id, event_id=event_id, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]
