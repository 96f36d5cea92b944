"""Zoom: signed like Slack, under other header names; the address is validated anew every 72 hours."""

from __future__ import annotations

import json
from collections.abc import Sequence

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming
from brant.inbox.providers.signatures import digest
from brant.inbox.providers.slack import Slack
from brant.inbox.request import Request


class Zoom(Slack):
    """There is no event id, and two people can join one meeting in the same millisecond: the body's hash is the key."""

    name = "zoom"
    header = "x-zm-signature"
    time_header = "x-zm-request-timestamp"

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        return [
            incoming(
                body_key(request.body),
                event_type=at(document, "event"),
                ordering_key=at(document, "payload", "object", "uuid"),
            )
        ]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        document = request.document()
        token = at(document, "payload", "plainToken")
        if at(document, "event") != "endpoint.url_validation" or not isinstance(token, str):
            return None
        # The answer is made with the secret that signed the question, which may be the old one or the new one.
        for secret in secrets:
            if self.valid(request, [secret], now):
                encrypted = digest(secret, token.encode("utf-8", "replace")).hex()
                body = json.dumps({"plainToken": token, "encryptedToken": encrypted}).encode()
                return Answer(body=body, content_type="application/json")
        return None
