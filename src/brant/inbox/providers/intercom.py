"""Intercom: an HMAC-SHA1 of the body."""

from __future__ import annotations

from collections.abc import Sequence

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Intercom(SignedProvider):
    """The notification's id is in the signed body. The address is tried with HEAD when it is set up."""

    name = "intercom"
    header = "X-Hub-Signature"
    prefix = "sha1="
    algorithm = "sha1"

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        event_id, kind = at(document, "id"), at(document, "topic")
        found = incoming(event_id, event_id=event_id, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        return Answer() if request.method == "HEAD" else None
