"""Verbs of schedules: what is due, and the step that fires it."""

from __future__ import annotations

from typing import NamedTuple

from brant.cron import CronSchedule
from brant.errors import InvalidValue
from brant.storage.base import ScheduleRow
from brant.storage.jobs import JobVerbs

MAX_MISSED_FIRES = 64
# How late a fire may be and still count as on time under the policy "skip".
SKIP_AFTER_S = 60


class Fire(NamedTuple):
    name: str
    queue: str
    fire_at: int
    job_id: int


class ScheduleVerbs(JobVerbs):
    def register_schedule(
        self,
        name: str,
        queue: str,
        expr: str,
        payload: str,
        *,
        priority: int = 0,
        expires_s: float | None = None,
        max_attempts: int = 3,
        tz: str | None = None,
        missed: str = "all",
    ) -> None:
        """Add or replace a schedule; the next fire is kept when its times are unchanged, so a restart loses none."""
        schedule = CronSchedule(expr, tz)
        known = self.get_schedule(name)
        unchanged = known is not None and (known.cron_expr, known.tz, known.error) == (schedule.expr, tz, None)
        params = {
            "name": name,
            "queue": queue,
            "expr": schedule.expr,
            "payload": payload,
            "priority": priority,
            "expires_s": expires_s,
            "max_attempts": max(max_attempts, 1),
            "next_fire_at": known.next_fire_at if known and unchanged else schedule.next_fire(self.now()),
        }
        self.changed("register_schedule", params)
        self.changed("describe_schedule", {"name": name, "tz": tz, "missed": missed})

    def update_schedule(
        self,
        name: str,
        *,
        expr: str | None = None,
        tz: str | None = None,
        touch_tz: bool = False,
        payload: str | None = None,
        priority: int | None = None,
        expires_s: float | None = None,
        touch_expires: bool = False,
        max_attempts: int | None = None,
        touch_max_attempts: bool = False,
        missed: str | None = None,
    ) -> bool:
        """Change what is given; False when the name is unknown or nothing was given."""
        known = self.get_schedule(name)
        given = (expr, payload, priority, missed) != (None, None, None, None)
        if known is None or not (given or touch_tz or touch_expires or touch_max_attempts):
            return False
        new_tz = tz if touch_tz else known.tz
        next_fire_at = known.next_fire_at
        if expr is not None or touch_tz:
            next_fire_at = CronSchedule(expr or known.cron_expr, new_tz).next_fire(self.now())
        params = {
            "name": name,
            "expr": known.cron_expr if expr is None else expr.strip(),
            "payload": known.payload if payload is None else payload,
            "priority": known.priority if priority is None else priority,
            "expires_s": expires_s if touch_expires else known.expires_s,
            "max_attempts": max(3 if max_attempts is None else max_attempts, 1)
            if touch_max_attempts
            else known.max_attempts,
            "next_fire_at": next_fire_at,
        }
        self.changed("update_schedule", params)
        self.changed("describe_schedule", {"name": name, "tz": new_tz, "missed": missed or known.missed})
        return True

    def remove_schedule(self, name: str) -> bool:
        self.changed("remove_schedule_extra", {"name": name})
        return self.changed("remove_schedule", {"name": name}) > 0

    def pause_schedule(self, name: str) -> bool:
        return self.changed("enable_schedule", {"name": name, "enabled": 0}) > 0

    def resume_schedule(self, name: str) -> bool:
        """Go on; of the fires that fell into the pause only the last is made up for."""
        resumed = self.changed("enable_schedule", {"name": name, "enabled": 1}) > 0
        schedule = self.get_schedule(name)
        if resumed and schedule is not None and schedule.error is None:
            boundaries, _ = _due_boundaries(schedule, self.now())
            if boundaries:
                last = boundaries[-1] if len(boundaries) < MAX_MISSED_FIRES else int(self.now())
                self.changed("advance_schedule", {"name": name, "next_fire_at": last})
        return resumed

    def get_schedule(self, name: str) -> ScheduleRow | None:
        found = self.rows("get_schedule", {"name": name})
        return ScheduleRow(*found[0]) if found else None

    def list_schedules(self) -> list[ScheduleRow]:
        return [ScheduleRow(*row) for row in self.rows("list_schedules", {})]

    def next_schedule_at(self) -> int:
        """When the next enabled schedule is due; 0 when there is none."""
        return int(self.value("next_schedule_at", {}) or 0)

    def tick(self, now: float) -> list[Fire]:
        """Enqueue what is due, each (schedule, boundary) once, and move on; a schedule that can't is parked."""
        fires: list[Fire] = []
        for row in self.rows("due_schedules", {"now": now}):
            schedule = ScheduleRow(*row)
            try:
                boundaries, following = _due_boundaries(schedule, now)
            except InvalidValue as error:
                self.changed("park_schedule", {"name": schedule.name, "error": str(error)})
                continue
            for boundary in _kept(boundaries, schedule.missed, now):
                fires.append(Fire(schedule.name, schedule.queue, boundary, self._fire(schedule)))
                self.changed("note_fire", {"name": schedule.name, "fired_at": boundary})
            self.changed("advance_schedule", {"name": schedule.name, "next_fire_at": following})
        return fires

    def _fire(self, schedule: ScheduleRow) -> int:
        return self.enqueue(
            schedule.queue,
            schedule.payload,
            priority=schedule.priority,
            expires=schedule.expires_s,
            max_attempts=schedule.max_attempts,
        )


def _due_boundaries(schedule: ScheduleRow, now: float) -> tuple[list[int], int]:
    """The boundaries from next_fire_at to now, at most MAX_MISSED_FIRES, and the first one after now."""
    times = CronSchedule(schedule.cron_expr, schedule.tz)
    due: list[int] = []
    boundary = schedule.next_fire_at
    while boundary <= now:
        if len(due) == MAX_MISSED_FIRES:
            return due, times.next_fire(now)
        due.append(boundary)
        boundary = times.next_fire(boundary)
    return due, boundary


def _kept(boundaries: list[int], missed: str, now: float) -> list[int]:
    if missed == "all":
        return boundaries
    newest = boundaries[-1:]
    if missed == "skip":
        return [boundary for boundary in newest if now - boundary <= SKIP_AFTER_S]
    return newest
