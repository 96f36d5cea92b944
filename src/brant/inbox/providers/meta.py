"""Meta (Facebook, Instagram, WhatsApp): an HMAC of a body with several entries, and a handshake by GET."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, packed
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.signatures import same_secret
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

_LONGEST_OBJECT = 100


class Meta(BatchProvider, SignedProvider):
    """One event an entry, told apart by its hash. `verify_token` is the text to be given in Meta's dashboard."""

    name = "meta"
    aliases = ("facebook", "instagram", "whatsapp")
    header = "X-Hub-Signature-256"
    prefix = "sha256="
    options: ClassVar[Mapping[str, object]] = {"verify_token": None}

    def items(self, request: Request) -> list[Any]:
        kind, entries = at(request.document(), "object"), at(request.document(), "entry")
        # The object is stored with each entry, so a long one would multiply what was sent.
        is_batch = isinstance(entries, list) and isinstance(kind, str) and len(kind) <= _LONGEST_OBJECT
        return entries if is_batch else []

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        kind = at(request.document(), "object")
        body = packed({"object": kind, "entry": [item]})
        return incoming(body_key(body), event_type=kind, body=body, ordering_key=at(item, "id"))

    def read_whole(self, request: Request) -> Incoming:
        return incoming(body_key(request.body), event_type=at(request.document(), "object"))

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        if request.method != "GET" or request.parameter("hub.mode") != "subscribe" or not self.settings["verify_token"]:
            return None
        token, text = request.parameter("hub.verify_token"), request.parameter("hub.challenge")
        known = self.settings["verify_token"].current(now)
        if token is None or text is None or not same_secret(known, token.encode("utf-8", "surrogatepass")):
            return None
        return Answer(body=text.encode("utf-8", "replace"))
