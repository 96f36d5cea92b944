"""Dropbox: an HMAC of the body, and a challenge by GET that is echoed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from brant.inbox.providers.base import Answer, Incoming, at, incoming
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}", re.ASCII)


class Dropbox(SignedProvider):
    """The secret is the app's own.

    The body says only whose files changed, so that two changes may have the same text: an event has no key, and is
    handled twice rather than lost.
    """

    name = "dropbox"
    header = "X-Dropbox-Signature"

    def read_events(self, request: Request) -> list[Incoming]:
        kind = next((name for name in ("list_folder", "delta") if at(request.document(), name) is not None), None)
        return [incoming(event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        token = request.parameter("challenge") if request.method == "GET" else None
        if not token or not _TOKEN.fullmatch(token):
            return None
        return Answer(body=token.encode(), headers=(("X-Content-Type-Options", "nosniff"),))
