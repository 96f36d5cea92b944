"""One topic on its way: read behind the saved offset, sent in order, saved once it has arrived."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from brant.inbox.bridging.envelope import packed, sealed
from brant.inbox.bridging.tables import origins
from brant.inbox.outgoing.delivery import HttpDelivery
from brant.inbox.outgoing.verdict import Refused

if TYPE_CHECKING:
    from brant.database import Database
    from brant.stream import Event

__all__ = ["Lane"]

_TOO_LARGE = 413


class Lane:
    """`consumer` is the name under which the stream knows how far this bridge is."""

    def __init__(
        self,
        db: Database,
        topic: str,
        consumer: str,
        node: str,
        *,
        start_at: int,
        forward: bool,
        most: int,
        most_bytes: int,
    ) -> None:
        self.topic = topic
        self._db = db
        self._stream = db.stream(topic)
        self._consumer = consumer
        self._node = node
        self._forward = forward
        self._most = most
        self._most_bytes = most_bytes
        # Known from now on, so that prune() leaves what was not sent yet; and never back to what was.
        self._stream.save_offset(consumer, start_at)

    def head(self) -> int:
        return self._stream.head()

    @property
    def offset(self) -> int:
        return self._stream.get_offset(self._consumer)

    def step(self, delivery: HttpDelivery) -> tuple[int, bool]:
        """Send the next events, at most one request; tells how many, and whether there was anything to look at.

        Raises what the delivery raises; then nothing is saved, and the next step sends the same.
        """
        page = self._stream.read(self.offset, self._most)
        if not page:
            return 0, False
        events, last = self._chosen(page)
        while events and not self._fitted(delivery, events):
            events, last = self._chosen(page)
        self._stream.save_offset(self._consumer, last)
        return len(events), True

    def _chosen(self, page: list[Event]) -> tuple[list[bytes], int]:
        """Those to be sent, and the offset up to which this is all there is to do."""
        # Behind the read: whoever publishes what came over a bridge notes its origin in the same commit.
        foreign = origins(self._db, page[0].offset, page[-1].offset)
        chosen: list[bytes] = []
        size, last = 0, page[0].offset
        for event in page:
            origin = foreign.get(event.offset)
            if origin is None or self._forward:
                one = packed(event, origin)
                size += len(one)
                if chosen and size > self._most_bytes:
                    return chosen, last
                chosen.append(one)
            last = event.offset
        return chosen, last

    def _fitted(self, delivery: HttpDelivery, events: list[bytes]) -> bool:
        """Send them; False if they are too large together, and then fewer are chosen."""
        body = sealed(self._node, self.topic, events)
        try:
            # The same events are the same request: sent again, it is known.
            delivery.send(body, message_id=f"bridge_{hashlib.sha256(body).hexdigest()[:32]}")
        except Refused as refusal:
            if refusal.status != _TOO_LARGE or len(events) == 1:
                raise
            self._most_bytes = sum(map(len, events)) // 2
            return False
        return True
