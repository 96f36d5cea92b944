"""Verbs of the shell on the same rows (write is enqueue), and of queues as a whole."""

from __future__ import annotations

import json
from collections.abc import Sequence

from brant.storage.base import DeadRow, MessageRow, Row, with_text
from brant.storage.jobs import JobVerbs
from brant.storage.rows import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    class Chosen(TypedDict, total=False):
        """Which messages: those with ids in an open range, or the one of that id."""

        after: int | None
        before: int | None
        message_id: int | None


class QueueCounts(NamedTuple):
    pending: int
    delayed: int
    processing: int
    dead: int
    oldest_due_at: float | None
    next_run_at: float | None
    paused: int


class MessageVerbs(JobVerbs):
    def take(self, queue: str, limit: int, **chosen: Unpack[Chosen]) -> list[MessageRow]:
        """Claim and ack in one: remove due rows and give them, in order."""
        params = self._range(queue, limit, **chosen)
        paused, events, _ = self.upkeep(params)
        if paused:
            return []
        in_batches = self._mark_taken(params)
        taken = _in_order(self._take(params))
        if events:
            self.emit("completed", [(row.id, queue, row.attempts) for row in taken])
        if in_batches:
            self.date_settled(in_batches)
        return taken

    def _take(self, params: dict[str, object]) -> list[Row]:
        return self.rows("take" if params["id"] is None else "take_id", params)

    def _mark_taken(self, params: dict[str, object]) -> set[int]:
        """Have the rows that are taken next count as done in their batches, not as cancelled."""
        if not self.value("any_batch_job", {}):
            return set()
        return {row[0] for row in self.rows("mark_taken" if params["id"] is None else "mark_taken_id", params)}

    def peek(
        self, queue: str, limit: int, *, seen: MessageRow | None = None, **chosen: Unpack[Chosen]
    ) -> list[MessageRow]:
        """The due rows, in order, left where they are; `seen` continues behind that row."""
        params = self._range(queue, limit, **chosen)
        if params["id"] is not None:
            return _in_order(self.rows("peek_id", params))
        params |= {
            "seen_id": seen and seen.id,
            "seen_priority": seen and seen.priority,
            "seen_run_at": seen and seen.run_at,
        }
        return _in_order(self.rows("peek", params) + self.rows("peek_lapsed", params))[:limit]

    def move(self, queue: str, destination: str, limit: int, **chosen: Unpack[Chosen]) -> list[MessageRow]:
        """Relabel due rows; each keeps its id, so also its age."""
        params = self._range(queue, limit, **chosen) | {"destination": destination}
        self.upkeep(params)
        moved = _in_order(self.rows("move" if params["id"] is None else "move_id", params))
        if moved:
            self.changed("register_queue", {"queue": destination})
            self.changed("drop_unique_of", {"ids": json.dumps([row.id for row in moved])})
        return moved

    def _range(
        self,
        queue: str,
        limit: int,
        *,
        after: int | None = None,
        before: int | None = None,
        message_id: int | None = None,
    ) -> dict[str, object]:
        return self.times() | {"queue": queue, "limit": limit, "after": after, "before": before, "id": message_id}

    def delete_message(self, queue: str, message_id: int) -> bool:
        params = self.times() | {"queue": queue, "id": message_id}
        self.changed("mark_deleted", params)
        gone = self.rows("delete_id", params)
        self._settled("cancelled", gone)
        return bool(gone)

    def delete_queue(self, queue: str) -> int:
        """Remove all live rows, leased ones too, and forget the name."""
        self.changed("mark_queue_deleted", {"queue": queue})
        gone = self.rows("delete_queue", {"queue": queue})
        self._settled("cancelled", gone)
        self.changed("forget_queue", {"queue": queue})
        return len(gone)

    def queue_names(self, *, with_dead: bool = False) -> list[str]:
        return [row[0] for row in self.rows("queue_names_with_dead" if with_dead else "queue_names", {})]

    def queue_counts(self, queue: str) -> QueueCounts:
        return QueueCounts(*self.rows("queue_stats", self.times() | {"queue": queue})[0])

    def queue_has_rows(self, queue: str) -> bool:
        return bool(self.value("queue_has_rows", {"queue": queue}))

    def pause_queue(self, queue: str, paused: bool) -> bool:
        return self.changed("pause_queue", {"queue": queue, "paused": int(paused)}) > 0

    def queue_paused(self, queue: str) -> bool:
        flags = self.rows("queue_flags", {"queue": queue})
        return bool(flags and flags[0][0])

    def record_queue_events(self, queue: str, events: bool) -> None:
        self.changed("record_queue_events", {"queue": queue, "events": int(events)})

    def list_dead(self, queue: str, after: int, limit: int) -> list[DeadRow]:
        found = self.rows("list_dead", {"queue": queue, "after": after, "limit": limit})
        return [DeadRow(*with_text(row)) for row in found]

    def get_dead(self, job_id: int) -> DeadRow | None:
        found = self.rows("get_dead", {"id": job_id})
        return DeadRow(*with_text(found[0])) if found else None

    def requeue_dead(self, ids: Sequence[int]) -> int:
        """Back to their queues, due now, with all their attempts."""
        params = self.times() | {"ids": json.dumps(list(ids))}
        revived = self.rows("revive", params)
        self.changed("drop_dead", {"ids": json.dumps([row[0] for row in revived])})
        for queue in {row[1] for row in revived}:
            self.changed("register_queue", {"queue": queue})
        self._emit_for("enqueued", revived)
        return len(revived)

    def purge_dead(self, queue: str, died_before: float | None) -> int:
        return self.changed("purge_dead", {"queue": queue, "died_before": died_before})

    def add_alias(self, alias: str, target: str) -> None:
        self.changed("add_alias", {"alias": alias, "target": target})

    def remove_alias(self, alias: str) -> bool:
        return self.changed("remove_alias", {"alias": alias}) > 0

    def alias_target(self, alias: str) -> str | None:
        target: str | None = self.value("alias_target", {"alias": alias})
        return target

    def list_aliases(self, target: str | None) -> list[Row]:
        return self.rows("list_aliases", {"target": target})


def _in_order(rows: Sequence[Row]) -> list[MessageRow]:
    # RETURNING gives rows in the order of the table, not in that in which they were chosen.
    return sorted((MessageRow(*with_text(row)) for row in rows), key=lambda row: (-row.priority, row.run_at, row.id))
