"""Claims while the server keeps dead rows: from the first live one on."""

from __future__ import annotations

import time

from brant.storage.base import JobRow, Row, moment_after
from brant.storage.jobs import Claimable, in_order
from brant.storage.postgres.alone import LoneVerbs
from brant.storage.postgres.floors import SLOW_S, Floor, Floors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.storage.limits import Params

_MANY_DEAD_ROWS = 2000
_MANY_TRANSACTIONS = 100  # have begun since the oldest one that is open


class PostgresClaimVerbs(LoneVerbs):
    floors: Floors | None = None

    def claim(
        self, queue: str, worker: str, limit: int, lease: float, *, overdue: int = 0, max_wait: float = 0
    ) -> list[tuple[JobRow, str | None]]:
        floors = self.floors
        floor = None if floors is None else floors.of(queue)
        if floor is not None and (rows := self._claim_alone(floor, queue, worker, limit, lease)):
            return in_order(rows)
        started = time.monotonic()
        claimed = super().claim(queue, worker, limit, lease, overdue=overdue, max_wait=max_wait)
        if floors and not floor and floors.is_to_ask(time.monotonic() - started) and self._keeps_dead_rows():
            floors.begin(queue)
        return claimed

    def _claim_alone(self, floor: Floor, queue: str, worker: str, limit: int, lease: float) -> list[Row]:
        """In one statement, where there is nothing to do beside."""
        if not self.is_alone or limit <= 0 or floor.is_due:
            return []
        params = self.times() | {"queue": queue, "worker": worker, "limit": limit, "floor": floor.as_json()}
        return self.rows_alone("claim_above", params | {"lease_end": moment_after(self.now(), lease)})

    def _keeps_dead_rows(self) -> bool:
        dead_rows, transactions = self.rows("kept_dead_rows", {})[0]
        return bool(dead_rows > _MANY_DEAD_ROWS and transactions > _MANY_TRANSACTIONS)

    def _floor(self, params: Params) -> Floor | None:
        return None if self.floors is None else self.floors.of(params["queue"])

    def upkeep(self, params: dict[str, object]) -> tuple[bool, bool, bool]:
        floor = self._floor(params)
        if floor is None:
            return super().upkeep(params)
        if not floor.is_due:
            paused, events, limited = self.rows("claim_flags", params)[0]
            if not limited:
                return bool(paused), bool(events), False
        return self._look_at_everything(floor, params)

    def _look_at_everything(self, floor: Floor, params: dict[str, object]) -> tuple[bool, bool, bool]:
        assert self.floors is not None  # noqa: S101
        started = time.monotonic()
        told = super().upkeep(params)
        found = self.rows("first_pending", params)
        took_s = time.monotonic() - started
        floor.looked(self.now(), found, took_s)
        # Where there are limits, claims look in another way.
        if took_s < SLOW_S or told[2] or not self._keeps_dead_rows():
            self.floors.end(params["queue"])
        return told

    def _claim_ready(self, params: dict[str, object]) -> list[Row]:
        floor = self._floor(params)
        if floor is None:
            return super()._claim_ready(params)
        return self.rows("claim_above", params | {"floor": floor.as_json()})

    def _claim_overdue(self, params: Params, limit: int) -> list[Row]:
        floor = self._floor(params)
        return [] if floor is not None and not floor.takes_turn() else super()._claim_overdue(params, limit)

    def claimable(self, queue: str) -> Claimable:
        params = self.times() | {"queue": queue}
        floor = self._floor(params)
        if floor is None:
            return super().claimable(queue)
        paused, limited, now, next_run = self.rows("claimable_above", params | {"floor": floor.as_json()})[0]
        if limited:
            return super().claimable(queue)
        if paused:
            return Claimable(False, None)
        if floor.is_due:
            return Claimable(True, None)
        # A lease that ran out is found by the next look at everything.
        look_at = self.now() + max(floor.looks_in_s, 0)
        return Claimable(bool(now), look_at if next_run is None else min(next_run, look_at))
