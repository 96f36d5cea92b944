"""Another Brant node that bridges a stream: Standard Webhooks around an envelope of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from brant.errors import InvalidValue
from brant.inbox.bridging.envelope import TYPE, Envelope
from brant.inbox.providers.base import Incoming, Rejected, at, incoming
from brant.inbox.providers.standard_webhooks import StandardWebhooks
from brant.inbox.request import Request


class BrantNode(StandardWebhooks):
    """What `brant bridge` sends. `topics` are those that may come (all); `node` is the receiver's own name."""

    name = "brant"
    aliases: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 300.0, "topics": (), "node": ""}
    families: ClassVar[tuple[str, ...]] = ("webhook",)

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        super().check(request, secrets, now)
        try:
            envelope = Envelope.of(request.document())
        except InvalidValue as error:
            raise Rejected(str(error)) from None
        if envelope.node == self.settings["node"]:
            # Its events would be taken for this node's own, and be dropped.
            raise Rejected("the sender has this node's own name: one file is a copy of the other, so rename one node")
        topics = self.settings["topics"]
        if topics and envelope.topic not in topics:
            raise Rejected("the topic is none of those that are taken")

    def read_events(self, request: Request) -> list[Incoming]:
        event_id = request.header("webhook-id")
        document = request.document()
        about = f"{at(document, 'node')}/{at(document, 'topic')}"
        return [incoming(event_id, event_id=event_id, delivery_id=event_id, event_type=TYPE, ordering_key=about)]
