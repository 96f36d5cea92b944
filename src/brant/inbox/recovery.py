"""Recovery: open events that nobody would ever run get a job again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brant.inbox.tables import row, rows, written

if TYPE_CHECKING:
    from brant.inbox.inbox import Inbox
    from brant.transaction import Transaction

_NEEDS_NONE = ("handled", "ignored", "dead")


def recover(inbox: Inbox, most: int) -> int:
    """Give open events that nobody would ever run a job again; tells how many."""
    mended = 0
    for status in ("received", "failed", "processing"):
        after = 0
        while page := rows(inbox.db, "events_without_job", status, after, most):
            after = page[-1]["id"]
            mended += written(inbox.db, partial(_mend_all, inbox, [found["id"] for found in page]))
    return mended


def _mend_all(inbox: Inbox, event_ids: list[int], tx: Transaction) -> int:
    inbox.jobs.hold_orders(tx, event_ids)
    return sum(_mend(inbox, tx, event_id) for event_id in event_ids)


def _mend(inbox: Inbox, tx: Transaction, event_id: int) -> bool:
    # Looked at again: between the reading and this transaction, it may have got one, or be done.
    event = row(tx, "event_to_change", event_id)
    if event is None or event["status"] in _NEEDS_NONE or inbox.jobs.has_job(tx, event_id):
        return False
    return inbox.jobs.mend(tx, event["endpoint_id"], event_id)
