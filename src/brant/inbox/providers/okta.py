"""Okta event hooks: a secret in a header, a challenge by GET, and several events in a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, packed
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.tokens import TokenProvider
from brant.inbox.request import Request

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}", re.ASCII)


class Okta(BatchProvider, TokenProvider):
    """The secret is the whole value of the header that the hook was set up with; `header` names that header.

    Each event has an id of its own. The challenge is echoed to anybody, since it says nothing.
    """

    name = "okta"
    options: ClassVar[Mapping[str, Any]] = {"header": "Authorization"}

    def token_header(self) -> str:
        return str(self.settings["header"])

    def items(self, request: Request) -> list[Any]:
        found = at(request.document(), "data", "events")
        return found if isinstance(found, list) else []

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        body, event_id, kind = packed(item), at(item, "uuid"), at(item, "eventType")
        found = incoming(event_id, event_id=event_id, event_type=kind, body=body)
        return found if found.dedupe_key else incoming(body_key(body), event_type=kind, body=body)

    def read_whole(self, request: Request) -> Incoming:
        return incoming(body_key(request.body), event_type=at(request.document(), "eventType"))

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        token = request.header("X-Okta-Verification-Challenge") if request.method == "GET" else None
        if not token or not _TOKEN.fullmatch(token):
            return None
        return Answer(body=json.dumps({"verification": token}).encode(), content_type="application/json")
