"""The jobs of events: each open event has one, or waits for the one before it of its ordering key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brant.inbox.tables import QUEUE, row, rows, run

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction


class Jobs:
    """Writes in transactions of its Database only.

    Of all open events of an ordering key exactly one has a job, the oldest at the time; that one's retries keep it,
    so the others stay behind it.
    """

    def __init__(self, db: Database, lease_s: float, attempts_of: Callable[[int], int]) -> None:
        self.queue = db.queue(QUEUE, visibility_timeout_s=lease_s)
        self._attempts_of = attempts_of

    def start(self, tx: Transaction, endpoint_id: int, event_id: int, ordering_key: str | None) -> None:
        """For an event that has just come in."""
        if ordering_key is None:
            self._enqueue(tx, endpoint_id, event_id, None)
        else:
            run(tx, "open_order", event_id, endpoint_id, ordering_key)
            self._advance(tx, endpoint_id, ordering_key)

    def restart(self, tx: Transaction, endpoint_id: int, event_id: int, delivery_id: int | None = None) -> None:
        """One job with all its attempts in the place of whatever jobs there were."""
        self.drop(tx, event_id)
        ordered = row(tx, "reopen_order", event_id, delivery_id)
        if ordered is None:
            self._enqueue(tx, endpoint_id, event_id, delivery_id)
        else:
            self._advance(tx, ordered["endpoint_id"], ordered["ordering_key"])

    def finish(self, tx: Transaction, event_id: int) -> None:
        """The event has come to rest: the next of its key is due."""
        ordered = row(tx, "close_order", event_id)
        if ordered is not None:
            self._advance(tx, ordered["endpoint_id"], ordered["ordering_key"])

    def mend(self, tx: Transaction, endpoint_id: int, event_id: int) -> bool:
        """Give an open event without a job one, unless it rightly waits for another; tells whether one was made."""
        ordered = row(tx, "order_of", event_id)
        if ordered is None:
            self._enqueue(tx, endpoint_id, event_id, None)
            return True
        if not ordered["open"]:
            row(tx, "reopen_order", event_id, None)
        return self._advance(tx, ordered["endpoint_id"], ordered["ordering_key"])

    def has_job(self, where: Database | Transaction, event_id: int) -> bool:
        return bool(rows(where, "live_jobs", event_id))

    def is_held_up(self, where: Database | Transaction, event_id: int) -> bool:
        """Whether it waits for another event of its key that has a job."""
        ordered = row(where, "order_of", event_id)
        if ordered is None or not ordered["open"]:
            return False
        return row(where, "key_has_job", ordered["endpoint_id"], ordered["ordering_key"]) is not None

    def drop(self, tx: Transaction, event_id: int) -> int:
        """Take away its jobs, live and dead; tells how many were live."""
        live = rows(tx, "live_jobs", event_id)
        for job in live:
            self.queue.cancel(job["id"], tx=tx)
        run(tx, "delete_dead_jobs", event_id)
        return len(live)

    def _advance(self, tx: Transaction, endpoint_id: int, ordering_key: str) -> bool:
        if row(tx, "key_has_job", endpoint_id, ordering_key) is not None:
            return False
        following = row(tx, "next_of_key", endpoint_id, ordering_key)
        if following is None:
            return False
        self._enqueue(tx, endpoint_id, following["event_id"], following["delivery_id"])
        return True

    def _enqueue(self, tx: Transaction, endpoint_id: int, event_id: int, delivery_id: int | None) -> None:
        payload: dict[str, Any] = {"event_id": event_id}
        if delivery_id is not None:
            payload["delivery_id"] = delivery_id
        self.queue.enqueue(payload, tx=tx, max_attempts=self._attempts_of(endpoint_id))
