"""Meta (Facebook, Instagram, WhatsApp): an HMAC of a body with several entries, and a handshake by GET."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, packed
from brant.inbox.providers.signatures import same_secret
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class Meta(SignedProvider):
    """One event an entry, told apart by its hash. `verify_token` is the text to be given in Meta's dashboard."""

    name = "meta"
    aliases = ("facebook", "instagram", "whatsapp")
    header = "X-Hub-Signature-256"
    prefix = "sha256="
    options: ClassVar[Mapping[str, object]] = {"verify_token": None}

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        kind, entries = at(document, "object"), at(document, "entry")
        if not isinstance(entries, list) or not entries:
            return [incoming(body_key(request.body), event_type=kind)]
        bodies = [packed({**document, "entry": [entry]}) for entry in entries]
        return [
            incoming(body_key(body), event_type=kind, body=body, ordering_key=at(entry, "id"))
            for body, entry in zip(bodies, entries, strict=True)
        ]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        if request.method != "GET" or request.parameter("hub.mode") != "subscribe" or not self.settings["verify_token"]:
            return None
        token, text = request.parameter("hub.verify_token"), request.parameter("hub.challenge")
        known = self.settings["verify_token"].current(now)
        if token is None or text is None or not same_secret(known, token.encode("utf-8", "surrogatepass")):
            return None
        return Answer(body=text.encode("utf-8", "replace"))
