"""Verbs of batches: jobs that are counted together, and the job that follows when all are settled.

The counting is done by triggers, so that it holds whoever settles a job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from brant.errors import InvalidValue
from brant.storage.jobs import JobVerbs
from brant.storage.rows import NamedTuple


class BatchRow(NamedTuple):
    id: int
    note: str
    total: int
    succeeded: int
    dead: int
    cancelled: int
    sealed: int
    settled: int
    created_at: float
    settled_at: float | None
    then_job_id: int | None


class BatchVerbs(JobVerbs):
    def create_batch(self, batch_id: int, note: str, keep_s: float, then: Mapping[str, object] | None = None) -> None:
        """Store it; one that is there already stays as it is. `then` has the columns `then_*` by name."""
        callback = dict.fromkeys(_CALLBACK) if then is None else {name: then[name] for name in _CALLBACK}
        params = self.times() | callback | {"id": batch_id, "note": note, "keep_s": keep_s}
        if not self.value("batch_texts_fit", params):
            raise InvalidValue("the note or the payload is nested too deeply for SQLite's JSON; make it flatter")
        if self.changed("create_batch", params) and then is not None:
            self.changed("register_queue", {"queue": then["then_queue"]})

    def join_batch(self, batch_id: int, job_ids: Sequence[int]) -> int:
        """Make live jobs its members; tells how many became so. One that is a member already is not counted twice."""
        batch = self.get_batch(batch_id)
        if batch is None:
            raise _unknown(batch_id)
        if batch.settled:
            raise InvalidValue(f"batch {batch_id} is settled: nothing can be added to it; make another one")
        params = {"batch": batch_id, "ids": json.dumps(list(job_ids))}
        added = len(self.rows("join_batch", params))
        if added < len(job_ids) and (other := self.value("other_batch_of", params)) is not None:
            raise InvalidValue(f"the job is in batch {other} already: a job belongs to one batch")
        self.changed("grow_batch", params | {"added": added})
        return added

    def seal_batch(self, batch_id: int) -> None:
        """Nothing but members adds to it from now on: it is settled when they are, or at once."""
        if not self.changed("seal_batch", {"id": batch_id}):
            raise _unknown(batch_id)
        self.date_settled([batch_id])

    def get_batch(self, batch_id: int) -> BatchRow | None:
        found = self.rows("get_batch", {"id": batch_id})
        return BatchRow(*found[0]) if found else None

    def batch_of_job(self, job_id: int) -> int | None:
        """The batch of a job, for as long as that is kept; the job itself may be done."""
        batch_id: int | None = self.value("batch_of_job", {"id": job_id})
        return batch_id

    def list_batches(self, limit: int) -> list[BatchRow]:
        """The latest first."""
        return [BatchRow(*row) for row in self.rows("list_batches", {"limit": limit})]

    def sweep_batches(self) -> int:
        """Forget the batches that were settled longer ago than they are kept; tells how many."""
        self.changed("date_batches", self.times())
        return self.changed("sweep_batches", self.times())


_CALLBACK = ("then_queue", "then_payload", "then_path", "then_priority", "then_max_attempts", "then_expires_s")


def _unknown(batch_id: int) -> InvalidValue:
    return InvalidValue(f"there is no batch {batch_id}: it was never committed, or it was settled long ago and removed")
