"""Where a claim begins to look, while the server can't remove dead rows.

As long as somebody leaves a transaction open, every job that was done since then stays in the table and its indexes,
for a claim to walk before it gets to the first live one. So when claims have become slow, and there are many dead rows,
the place of the first live row is remembered, and claims begin there. What comes to lie before it (a job that was given
back, one whose transaction took long, a first job of another priority) is found by the next look at everything: the
longer such a look takes, the more seldom it is made.
"""

from __future__ import annotations

import json
import time

from brant.storage.base import JobRow, Row
from brant.storage.jobs import Claimable, JobVerbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from brant.storage.limits import Params

_SLOW_S = 0.005
_MANY_DEAD_ROWS = 2000
_ASK_EVERY_S = 1.0
# Of the time of a process, looks at everything take about a tenth.
_PAUSE_PER_LOOK = 10
_SHORTEST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
# New jobs come behind the time of a look, unless their transaction takes longer than this.
_MARGIN_S = 0.25
_USUAL_PRIORITY = 0


class Floor:
    """The first live row of each priority of a queue, as of the last look at everything."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[float, int]] = {_USUAL_PRIORITY: (0.0, 0)}
        self._look_at = 0.0
        self._may_age = False

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._look_at

    @property
    def looks_in_s(self) -> float:
        return self._look_at - time.monotonic()

    def looked(self, now: float, found: Iterable[Row], took_s: float) -> None:
        """Take what was found; a priority of which there is nothing any more may have something again."""
        new = now - _MARGIN_S
        behind = (float(int(new)), int(new * 1_000_000))
        first = {priority: (run_at, job_id) for priority, run_at, job_id in found}
        self._places = {priority: min(first.get(priority, behind), behind) for priority in self._places.keys() | first}
        pause_s = min(max(took_s * _PAUSE_PER_LOOK, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
        self._look_at = time.monotonic() + pause_s
        self._may_age = True

    def takes_turn(self) -> bool:
        """Whether what has waited too long may be looked for: once for each look at everything."""
        turn, self._may_age = self._may_age, False
        return turn

    def as_json(self) -> str:
        return json.dumps([(priority, *place) for priority, place in sorted(self._places.items(), reverse=True)])


class Floors:
    """Those of one Database: none as long as claims are quick."""

    def __init__(self) -> None:
        self._of: dict[str, Floor] = {}
        self._asked_at = 0.0

    def of(self, queue: object) -> Floor | None:
        return self._of.get(str(queue)) if self._of else None

    def is_to_ask(self, took_s: float) -> bool:
        """Whether a claim that took so long is a reason to ask for dead rows."""
        now = time.monotonic()
        if took_s < _SLOW_S or now < self._asked_at + _ASK_EVERY_S:
            return False
        self._asked_at = now
        return True

    def begin(self, queue: str) -> None:
        self._of.setdefault(queue, Floor())

    def end(self, queue: object) -> None:
        self._of.pop(str(queue), None)


class PostgresClaimVerbs(JobVerbs):
    floors: Floors | None = None

    def claim(
        self, queue: str, worker: str, limit: int, lease: float, *, overdue: int = 0, max_wait: float = 0
    ) -> list[tuple[JobRow, str | None]]:
        floors = self.floors
        is_usual = floors is not None and floors.of(queue) is None
        started = time.monotonic()
        claimed = super().claim(queue, worker, limit, lease, overdue=overdue, max_wait=max_wait)
        if floors is not None and is_usual and floors.is_to_ask(time.monotonic() - started) and self._has_many_dead():
            floors.begin(queue)
        return claimed

    def _has_many_dead(self) -> bool:
        found = self.rows("dead_rows", {})
        return bool(found) and found[0][1] > _MANY_DEAD_ROWS

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
        if took_s < _SLOW_S or told[2]:  # the dead rows are gone, or there are limits, which look in another way
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
