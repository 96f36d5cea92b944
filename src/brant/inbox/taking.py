"""Endpoints whose events are done as soon as they are stored: what they lead to is in the same commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brant.inbox.records import Received
from brant.inbox.storing import Parcel, Store
from brant.inbox.tables import run

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.jobs import Starting
    from brant.transaction import Transaction

__all__ = ["Take", "TakingStore"]

Take = Callable[["Database", "Transaction", bytes], None]


class TakingStore(Store):
    """A Store that also lets an endpoint's `take` write, which then needs neither a job nor a worker."""

    def _stored(self, tx: Transaction, parcel: Parcel, starting: Starting) -> Received:
        answer = super()._stored(tx, parcel, starting)
        take = parcel.endpoint.take
        if take is not None and answer.accepted and not answer.duplicate:
            now = int(self._db.clock.now())
            for item, event_id in zip(parcel.items, answer.event_ids, strict=True):
                take(self._db, tx, item.body)
                starting.forget(event_id)
                self._jobs.drop(tx, event_id)
                run(tx, "mark_handled", event_id, 1, now)
                run(tx, "insert_attempt", event_id, now, "handled", None, 0)
                if item.ordering_key is not None:
                    self._jobs.finish(tx, event_id)
        return answer
