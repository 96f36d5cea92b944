"""HubSpot, version 3: an HMAC of method, public address, body and time; the body is a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from brant.inbox.providers.base import Incoming, at, body_key, incoming, packed, required_header
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.public_url import refuse_query, with_query
from brant.inbox.providers.signatures import check_time, digits
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

_TIME = "X-HubSpot-Request-Timestamp"
# What HubSpot decodes in the address before it signs.
_DECODED = {"%3A": ":", "%2F": "/", "%3F": "?", "%40": "@", "%21": "!", "%24": "$", "%27": "'", "%28": "("}
_DECODED |= {"%29": ")", "%2A": "*", "%2C": ",", "%3B": ";"}
_IDENTITY = ("portalId", "subscriptionId", "eventId", "objectId", "occurredAt")


class HubSpot(BatchProvider, SignedProvider):
    """One event an item. HubSpot doesn't promise unique event ids, so the key has what tells events apart too.

    `url` is the public address without the query.
    """

    name = "hubspot"
    header = "X-HubSpot-Signature-v3"
    encoding = "base64"
    options: ClassVar[Mapping[str, object]] = {"url": (), "tolerance_s": 300.0}
    required = ("url",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        refuse_query(self.settings["url"], self.name)

    def messages(self, request: Request) -> list[bytes]:
        timestamp = required_header(request, _TIME)
        digits(timestamp, longest=16)
        urls = with_query(self.settings["url"], request)
        spelled = [*urls, *(other for other in map(_half_decoded, urls) if other not in urls)]
        return [
            f"{request.method}{url}".encode("utf-8", "surrogatepass") + request.body + timestamp.encode()
            for url in spelled
        ]

    def check_freshness(self, request: Request, now: float) -> None:
        sent_ms = digits(required_header(request, _TIME), longest=16)
        check_time(sent_ms / 1000, now, self.settings["tolerance_s"])

    def items(self, request: Request) -> list[Any]:
        return request.items()

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        return _event(item)

    def read_whole(self, request: Request) -> Incoming:
        return incoming(body_key(request.body), event_type=at(request.document(), "subscriptionType"))

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        return self.draft(body, facts, ("content-type", "application/json"), (_TIME, str(int(now * 1000))))


def _event(item: object) -> Incoming:
    body, kind, event_id = packed(item), at(item, "subscriptionType"), at(item, "eventId")
    found = incoming(
        kind,
        *(at(item, name) for name in _IDENTITY),
        event_id=event_id,
        event_type=kind,
        body=body,
        ordering_key=at(item, "objectId"),
    )
    if found.dedupe_key:
        return found
    # The number of the attempt is the one thing that changes when an item is sent again.
    content = (
        {name: value for name, value in item.items() if name != "attemptNumber"} if isinstance(item, dict) else item
    )
    return incoming(body_key(packed(content)), event_id=event_id, event_type=kind, body=body)


def _half_decoded(url: str) -> str:
    for code, char in _DECODED.items():
        url = url.replace(code, char).replace(code.lower(), char)
    return url
