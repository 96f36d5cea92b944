"""The jobs of events: each open event has one, or waits for the one before it of its ordering key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brant.inbox.tables import QUEUE, hold, order_of, row, rows, run

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
        self._lease_s = lease_s
        self._attempts_of = attempts_of

    def of(self, db: Database) -> Jobs:
        """The same for another handle on the file."""
        return Jobs(db, self._lease_s, self._attempts_of)

    def starting(self, tx: Transaction) -> Starting:
        """For events that have just come in together."""
        return Starting(self, tx)

    def start_ordered(self, tx: Transaction, endpoint_id: int, event_id: int, ordering_key: str) -> None:
        run(tx, "open_order", event_id, endpoint_id, ordering_key)
        self._advance(tx, endpoint_id, ordering_key)

    def start_all(self, tx: Transaction, endpoint_id: int, event_ids: list[int]) -> None:
        if len(event_ids) == 1:
            self._enqueue(tx, endpoint_id, event_ids[0], None)
            return
        payloads = [{"event_id": event_id} for event_id in event_ids]
        self.queue.enqueue_many(payloads, tx=tx, max_attempts=self._attempts_of(endpoint_id))

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

    def leave(self, tx: Transaction, event_id: int) -> None:
        """As `finish`, for an event that is deleted or found at rest: one that has long left its key held nobody up."""
        ordered = row(tx, "order_of", event_id)
        if ordered is not None and ordered["open"]:
            self.finish(tx, event_id)

    def mend(self, tx: Transaction, endpoint_id: int, event_id: int) -> bool:
        """Give an open event without a job one, unless it rightly waits for another; tells whether one was made."""
        ordered = row(tx, "order_of", event_id)
        if ordered is None:
            self._enqueue(tx, endpoint_id, event_id, None)
            return True
        if not ordered["open"]:
            row(tx, "reopen_order", event_id, None)
        return self._advance(tx, ordered["endpoint_id"], ordered["ordering_key"])

    def hold_orders(self, tx: Transaction, event_ids: list[int]) -> None:
        """Hold the keys of all of them at once: one after the other, as they come, two could wait for each other."""
        if tx.schema is not None:
            found = rows(tx, "orders_of", json.dumps(event_ids))
            hold(tx, *(order_of(each["endpoint_id"], each["ordering_key"]) for each in found))

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
        hold(tx, order_of(endpoint_id, ordering_key))
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


class Starting:
    """The events of one transaction: those that wait for no other get their jobs at its end, all at once."""

    def __init__(self, jobs: Jobs, tx: Transaction) -> None:
        self._jobs = jobs
        self._tx = tx
        self._unordered: dict[int, list[int]] = {}

    def add(self, endpoint_id: int, event_id: int, ordering_key: str | None) -> None:
        if ordering_key is None:
            self._unordered.setdefault(endpoint_id, []).append(event_id)
        else:
            # At once: the next one of its key must see it.
            self._jobs.start_ordered(self._tx, endpoint_id, event_id, ordering_key)

    def forget(self, event_id: int) -> None:
        """It is done already."""
        for event_ids in self._unordered.values():
            if event_id in event_ids:
                event_ids.remove(event_id)

    def enqueue(self) -> None:
        for endpoint_id, event_ids in self._unordered.items():
            self._jobs.start_all(self._tx, endpoint_id, event_ids)
