"""Verbs that Postgres needs in another way, since others write at the same time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from brant.storage.base import JobRow, Row, moment_after
from brant.storage.postgres.batches import PostgresBatchVerbs
from brant.storage.postgres.claims import PostgresClaimVerbs
from brant.storage.postgres.limits import PostgresLimitVerbs
from brant.storage.postgres.rings import Rings
from brant.storage.postgres.schedules import PostgresScheduleVerbs
from brant.storage.postgres.transfer import PostgresTransferVerbs
from brant.storage.session import Session

_PROMPT = 0.1  # of a lease


class PostgresVerbs(
    PostgresClaimVerbs,
    PostgresLimitVerbs,
    PostgresBatchVerbs,
    PostgresScheduleVerbs,
    PostgresTransferVerbs,
    Session,
):
    """All verbs, safe beside other transactions."""

    rings: Rings

    def _unique_holder(self, params: dict[str, object], key: str) -> int | None:
        """Who holds the key; with the key locked, so that of two who want it only one finds nobody."""
        of_key = params | {"key": key}
        self.rings.used_keys = True
        self.rows("lock_unique", of_key)
        holder: int | None = self.value("unique_holder", of_key)
        return holder

    def drop_lapsed_keys(self) -> None:
        """Forget some of the unique keys whose time is over: in a transaction of its own, since it locks them."""
        self.changed("outlive_unique", self.times())
        self.changed("drop_lapsed_unique", self.times())

    def claim(
        self, queue: str, worker: str, limit: int, lease: float, *, overdue: int = 0, max_wait: float = 0
    ) -> list[tuple[JobRow, str | None]]:
        began = self.now()
        claimed = super().claim(queue, worker, limit, lease, overdue=overdue, max_wait=max_wait)
        if claimed and self.now() - began > _PROMPT * lease:
            # It has waited, for a lock on a table or for a server with too much to do: not at the cost of the lease.
            self.leased_at = self.clock.monotonic()
            lease_end = moment_after(self.now(), lease)
            self.changed("restart_leases", {"ids": json.dumps([job.id for job, _ in claimed]), "lease_end": lease_end})
            claimed = [(job._replace(claim_expires_at=lease_end), error) for job, error in claimed]
        return claimed

    def retry(self, job_id: int, worker: str, delay: float, error: str, attempt: int | None = None) -> bool:
        return super().retry(job_id, worker, delay, _storable(error), attempt)

    def fail(self, job_id: int, worker: str, error: str, attempt: int | None = None) -> bool:
        return super().fail(job_id, worker, _storable(error), attempt)

    def bury(self, ids: Sequence[int], error: str) -> None:
        super().bury(ids, _storable(error))

    def _mark_taken(self, params: dict[str, object]) -> set[int]:
        """Choose what is taken next, and have it count as done in its batches, not as cancelled."""
        if not self.value("any_batch_job", {}):
            return set()
        choosing = "choose_to_take" if params["id"] is None else "choose_id_to_take"
        params["ids"] = json.dumps([row[0] for row in self.rows(choosing, params)])
        return {row[0] for row in self.rows("mark_chosen", params)}

    def _take(self, params: dict[str, object]) -> list[Row]:
        return self.rows("take_chosen", params) if "ids" in params else super()._take(params)


def _storable(error: str) -> str:
    """The text of an error, without the character that can't be stored: a job must not live on for what it says."""
    return error.replace("\0", "\\x00")
