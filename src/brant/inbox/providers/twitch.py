"""Twitch EventSub: an HMAC of id, time and body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, incoming, required_header
from brant.inbox.providers.signatures import check_time, iso_moment, iso_text
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

_ID, _TIME = "Twitch-Eventsub-Message-Id", "Twitch-Eventsub-Message-Timestamp"
_KIND = "Twitch-Eventsub-Message-Type"


class Twitch(SignedProvider):
    """The message's id is signed. A subscription that Twitch took back comes as the type `revocation`."""

    name = "twitch"
    header = "Twitch-Eventsub-Message-Signature"
    prefix = "sha256="
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 600.0}

    def messages(self, request: Request) -> list[bytes]:
        message_id, timestamp = required_header(request, _ID), required_header(request, _TIME)
        iso_moment(timestamp)
        return [(message_id + timestamp).encode("utf-8", "surrogatepass") + request.body]

    def check_freshness(self, request: Request, now: float) -> None:
        check_time(iso_moment(required_header(request, _TIME)), now, self.settings["tolerance_s"])

    def read_events(self, request: Request) -> list[Incoming]:
        message_id = request.header(_ID)
        revoked = request.header(_KIND) == "revocation"
        kind = "revocation" if revoked else at(request.document(), "subscription", "type")
        return [incoming(message_id, event_id=message_id, delivery_id=message_id, event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        text = at(request.document(), "challenge")
        if request.header(_KIND) != "webhook_callback_verification" or not isinstance(text, str):
            return None
        return Answer(body=text.encode("utf-8", "replace")) if self.valid(request, secrets, now) else None

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            (_ID, facts.get("event_id", f"test-{int(now)}")),
            (_TIME, iso_text(now)),
            (_KIND, facts.get("event_type", "notification")),
        )
