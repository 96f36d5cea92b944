"""Limits beside other transactions: a claim of a queue with limits is one call, and waits for the one before."""

from __future__ import annotations

import json
from collections.abc import Sequence

from brant.storage.base import Row
from brant.storage.limits import LimitRow, LimitVerbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.storage.limits import Params


class PostgresLimitVerbs(LimitVerbs):
    def set_limit(self, queue: str, limit: LimitRow) -> None:
        settings = {"queue": queue, **limit._asdict()}
        if not self.rows("keep_limit", settings):
            self.changed("set_limit", settings)

    def _limit_jobs(self, queue: str, ids: Sequence[int], limit: LimitRow, priority: int) -> None:
        # Unlike on SQLite, no unused keys are forgotten here but by claims: their rows would stay locked for as long as
        # the caller's transaction goes on.
        self.set_limit(queue, limit)
        new = {"queue": queue, "key": limit.key, "priority": priority, "ids": json.dumps(list(ids))}
        self.changed("limit_jobs", new)

    def _claim_within_limits(self, params: Params, limit: int, overdue: int) -> list[Row]:
        claimed = [row[0] for row in self.rows("claim_within_limits", params | {"limit": limit, "overdue": overdue})]
        return self.rows("claimed_jobs", {"ids": json.dumps(claimed)}) if claimed else []
