"""Verbs of schedules: what is due, and the step that fires it."""

from __future__ import annotations

import math

from brant.storage.base import ScheduleRow
from brant.storage.jobs import JobVerbs
from brant.storage.rows import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.cron import CronSchedule

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
        schedule = _times(expr, tz)
        known = self.get_schedule(name)
        unchanged = known is not None and (known.cron_expr, known.tz, known.error) == (schedule.expr, tz, None)
        params = {
            "name": name,
            "queue": queue,
            "expr": schedule.expr,
            "payload": payload,
            "priority": priority,
            "expires_s": _whole(expires_s),
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
            next_fire_at = _times(known.cron_expr if expr is None else expr, new_tz).next_fire(self.now())
        params = {
            "name": name,
            "expr": known.cron_expr if expr is None else expr.strip(),
            "payload": known.payload if payload is None else payload,
            "priority": known.priority if priority is None else priority,
            "expires_s": _whole(expires_s) if touch_expires else known.expires_s,
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
                last = _newest(schedule, boundaries, self.now())
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
                with self.savepoint():
                    fires += self._fire_due(schedule, now)
            except (ValueError, TypeError, OverflowError, OSError) as error:
                # Whatever other programs wrote into the row: what can't be computed with it.
                self.changed("park_schedule", {"name": schedule.name, "error": str(error)})
        return fires

    def _fire_due(self, schedule: ScheduleRow, now: float) -> list[Fire]:
        boundaries, following = _due_boundaries(schedule, now)
        fires = [
            Fire(schedule.name, schedule.queue, boundary, self._fire(schedule))
            for boundary in _kept(schedule, boundaries, now)
        ]
        if fires:
            self.changed("note_fire", {"name": schedule.name, "fired_at": fires[-1].fire_at})
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


def _whole(seconds: float | None) -> int | None:
    # Honker reads all schedules at once, and fails if one of them holds a fraction.
    return None if seconds is None else math.ceil(seconds)


def _due_boundaries(schedule: ScheduleRow, now: float) -> tuple[list[int], int]:
    """The boundaries from next_fire_at to now, at most MAX_MISSED_FIRES, and the first one after now."""
    times = _times(schedule.cron_expr, schedule.tz)
    due: list[int] = []
    boundary = schedule.next_fire_at
    while boundary <= now:
        if len(due) == MAX_MISSED_FIRES:
            # Not the first after now: an interval goes on in its own step.
            return due, times.next_fire(times.latest_fire(now, boundary))
        due.append(boundary)
        boundary = times.next_fire(boundary)
    return due, boundary


def _kept(schedule: ScheduleRow, boundaries: list[int], now: float) -> list[int]:
    if schedule.missed == "all":
        return boundaries
    newest = _newest(schedule, boundaries, now)
    too_late = schedule.missed == "skip" and now - newest > SKIP_AFTER_S
    return [] if too_late else [newest]


def _newest(schedule: ScheduleRow, boundaries: list[int], now: float) -> int:
    """The last boundary until now, which lies beyond `boundaries` if there are more than MAX_MISSED_FIRES."""
    last = boundaries[-1]
    if len(boundaries) < MAX_MISSED_FIRES:
        return last
    return _times(schedule.cron_expr, schedule.tz).latest_fire(now, last)


def _times(expr: str, tz: str | None) -> CronSchedule:
    from brant.cron import CronSchedule  # most sessions have to do with no schedule

    return CronSchedule(expr, tz)
