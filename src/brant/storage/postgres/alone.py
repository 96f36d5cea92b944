"""The busiest verbs as one statement each: no BEGIN and no COMMIT to wait for.

Only where the verb is all that its block does, and where the statement finds that there is nothing to do beside: no
event to record, no batch to settle, no lease to end. Otherwise a transaction begins and does it.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from brant.storage.base import JobRow, Row, moment_after
from brant.storage.jobs import ENQUEUE_CHUNK, JobVerbs, in_order
from brant.storage.postgres.floors import Floors
from brant.storage.postgres.rings import Bell, Rings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LoneVerbs(JobVerbs):
    """`is_alone`: the block is of one verb, and nothing has begun yet."""

    rings: Rings
    floors: Floors | None
    bell: Bell | None = None
    is_alone = False

    @abstractmethod
    def rows_alone(self, name: str, params: Mapping[str, object]) -> list[Row]:
        """Run a statement as a transaction by itself."""

    def enqueue(self, queue: str, payload: str, **options: Any) -> int:
        if self.is_alone and options.get("unique_key") is None and options.get("limit") is None:
            params = self._new_job(queue, *_of_new_job(options))
            params["payload"] = payload
            if rows := self._rows_and_ring("enqueue", params):
                return int(rows[0][0])
        return super().enqueue(queue, payload, **options)

    def enqueue_many(self, queue: str, payloads: Sequence[str], **options: Any) -> list[int]:
        if self.is_alone and 0 < len(payloads) <= ENQUEUE_CHUNK and options.get("limit") is None:
            params = self._new_job(queue, *_of_new_job(options))
            if options.get("expires_at") is not None:
                params["expires_at"] = options["expires_at"]
            params["payloads"] = json.dumps(payloads)
            for (first_id,) in self._rows_and_ring("enqueue_many", params):
                return list(range(first_id, first_id + len(payloads)))
        return super().enqueue_many(queue, payloads, **options)

    def claim(
        self, queue: str, worker: str, limit: int, lease: float, *, overdue: int = 0, max_wait: float = 0
    ) -> list[tuple[JobRow, str | None]]:
        if self.is_alone and limit > 0 and (self.floors is None or self.floors.of(queue) is None):
            params = self.times() | {"queue": queue, "worker": worker, "limit": limit, "overdue": overdue}
            params |= {"max_wait": max_wait, "lease_end": moment_after(self.now(), lease)}
            if rows := self.rows_alone("claim", params):
                return in_order(rows)
        return super().claim(queue, worker, limit, lease, overdue=overdue, max_wait=max_wait)

    def ack(self, job_id: int, worker: str, attempt: int | None = None) -> bool:
        if self.is_alone and self.rows_alone("ack", self._claim_of(job_id, worker, attempt)):
            return True
        return super().ack(job_id, worker, attempt)

    def ack_many(self, ids: Iterable[int], worker: str) -> int:
        wanted = list(ids)
        if self.is_alone:
            params = self.times() | {"ids": json.dumps(wanted), "worker": worker}
            if rows := self.rows_alone("ack_many", params):
                return len(rows)
        return super().ack_many(wanted, worker)

    def _rows_and_ring(self, name: str, params: dict[str, object]) -> list[Row]:
        """Whoever waits in another process is told by the same statement, unless it was told just now."""
        if self.bell is None:
            return []
        queue = str(params["queue"])
        rang_at = time.monotonic()
        rings = self.bell.rings_now((queue,))
        rows: list[Row] = []
        try:
            rows = self.rows_alone(name, params | self.bell.words | {"rings": rings})
        finally:
            if rings and not rows:
                self.bell.unrung(queue)
        if rings:
            self.rings.rang_at = rang_at
        return rows


def _of_new_job(options: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        options.get("run_at"),
        options.get("delay"),
        options.get("priority", 0),
        options.get("max_attempts", 3),
        options.get("expires"),
    )
