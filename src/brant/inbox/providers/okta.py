"""Okta event hooks: a secret in a header, a challenge by GET, and several events in a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, packed
from brant.inbox.providers.tokens import TokenProvider
from brant.inbox.request import Request

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}", re.ASCII)


class Okta(TokenProvider):
    """The secret is the whole value of the header that the hook was set up with; `header` names that header.

    Each event has an id of its own. The challenge is echoed to anybody, since it says nothing.
    """

    name = "okta"
    options: ClassVar[Mapping[str, Any]] = {"header": "Authorization"}

    def token_header(self) -> str:
        return str(self.settings["header"])

    def read_events(self, request: Request) -> list[Incoming]:
        items = at(request.document(), "data", "events")
        if not isinstance(items, list) or not items:
            return [incoming(body_key(request.body), event_type=at(request.document(), "eventType"))]
        return [_event(item) for item in items]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        token = request.header("X-Okta-Verification-Challenge") if request.method == "GET" else None
        if not token or not _TOKEN.fullmatch(token):
            return None
        return Answer(body=json.dumps({"verification": token}).encode(), content_type="application/json")


def _event(item: Any) -> Incoming:
    body, event_id = packed(item), at(item, "uuid")
    found = incoming(event_id, event_id=event_id, event_type=at(item, "eventType"), body=body)
    return found if found.dedupe_key else incoming(body_key(body), event_type=at(item, "eventType"), body=body)
