"""Schedules beside other transactions: who changes one keeps others from firing it meanwhile."""

from __future__ import annotations

from brant.storage.schedules import ScheduleVerbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PostgresScheduleVerbs(ScheduleVerbs):
    def register_schedule(self, name: str, queue: str, expr: str, payload: str, **options: Any) -> None:
        self.rows("lock_schedule", {"name": name})
        super().register_schedule(name, queue, expr, payload, **options)

    def update_schedule(self, name: str, **changes: Any) -> bool:
        self.rows("lock_schedule", {"name": name})
        return super().update_schedule(name, **changes)
