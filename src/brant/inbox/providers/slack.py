"""Slack: events, slash commands and interactions, all signed with the time of sending."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, required_header
from brant.inbox.providers.signatures import check_time, digits
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Slack(SignedProvider):
    """An event has an id that is kept over retries; commands and interactions are told apart by their body."""

    name = "slack"
    header = "X-Slack-Signature"
    time_header: ClassVar[str] = "X-Slack-Request-Timestamp"
    prefix = "v0="
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 300.0}

    def messages(self, request: Request) -> list[bytes]:
        timestamp = required_header(request, self.time_header)
        digits(timestamp)
        return [b"v0:" + timestamp.encode() + b":" + request.body]

    def check_freshness(self, request: Request, now: float) -> None:
        check_time(digits(required_header(request, self.time_header)), now, self.settings["tolerance_s"])

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document() or _form_document(request)
        event_id = at(document, "event_id")
        kind = at(document, "event", "type") or at(document, "type") or at(document, "command")
        found = incoming(event_id, event_id=event_id, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        document = request.document()
        text = at(document, "challenge")
        if at(document, "type") != "url_verification" or not isinstance(text, str):
            return None
        if not self.valid(request, secrets, now):
            return None
        return Answer(body=text.encode("utf-8", "replace"))

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        return self.draft(body, facts, ("content-type", "application/json"), (self.time_header, str(int(now))))


def _form_document(request: Request) -> dict[str, Any]:
    """A slash command's fields; an interaction is JSON in the field `payload`."""
    given = dict(request.form())
    try:
        payload = json.loads(given.get("payload", ""))
    except (ValueError, RecursionError):
        payload = None
    return payload if isinstance(payload, dict) else given
