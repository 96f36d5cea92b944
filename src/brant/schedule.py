"""Schedules that enqueue jobs, and the scheduler that fires them: one leader among all processes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from brant.arguments import decode_or_text, encode, label, queue_name, seconds, whole
from brant.cron import CronSchedule
from brant.errors import BrantError, DatabaseReplaced, InvalidValue, LeadershipLost, LockHeld, StorageError
from brant.storage.base import ScheduleRow
from brant.storage.schedules import Fire
from brant.transaction import writing

if TYPE_CHECKING:
    from brant.database import Database

MissedFires = Literal["skip", "one", "all"]
_SAFETY_POLL_S = 5.0
_SHORT_LOCK_S = 24.0
# After the database refused: somebody else writes, the disk is full, the connection was lost.
_TROUBLE_PAUSE_S = 1.0
# While somebody's transaction has locked what is due.
_LOCKED_PAUSE_S = 0.1


class _Unset:
    """Marks an argument that was not given, where None means something."""


_UNSET: Final = _Unset()


@dataclass(frozen=True)
class Schedule:
    """A registered schedule. `error` is set when it can't fire and waits to be mended."""

    name: str
    queue: str
    cron_expr: str
    payload: Any
    priority: int
    expires_s: float | None
    next_fire_at: int
    enabled: bool
    max_attempts: int
    tz: str | None
    missed: str
    last_fire_at: int | None
    error: str | None

    @classmethod
    def of(cls, row: ScheduleRow) -> Schedule:
        return cls(**(row._asdict() | {"payload": decode_or_text(row.payload), "enabled": bool(row.enabled)}))


class Scheduler:
    """Manages the schedules of a Database, and fires them while `run()` runs."""

    LOCK_NAME = "honker-scheduler"
    LOCK_TTL = 60
    HEARTBEAT_INTERVAL = 30

    def __init__(self, db: Database, lock_name: str | None = None) -> None:
        self.db = db
        self.lock_name = lock_name or self.LOCK_NAME
        self.lock_ttl: float = self.LOCK_TTL
        self.heartbeat_interval: float = self.HEARTBEAT_INTERVAL
        self._owner = uuid.uuid4().hex
        self._running = False

    def shorten_lock(self) -> None:
        """Hold the lock for 24 seconds at a time: others that stand by then need not wait a minute after a crash."""
        self.lock_ttl = _SHORT_LOCK_S
        self.heartbeat_interval = _SHORT_LOCK_S / 3

    def add(
        self,
        *,
        name: str,
        queue: str,
        schedule: CronSchedule | str,
        payload: object = None,
        priority: int = 0,
        expires: float | None = None,
        max_attempts: int = 3,
        missed: MissedFires = "all",
        tx: object | None = None,
    ) -> None:
        """Register or replace a schedule; re-adding an unchanged one, as every start does, keeps its next fire.

        `missed` says what happens to fires that nobody was there for: all of them (at most 64) are made up for, or
        one, or none that is more than a minute late.
        """
        times = _checked_schedule(schedule)
        text = encode(payload)
        with writing(self.db._storage, tx) as session:
            session.register_schedule(
                label(name, "schedule name"),
                queue_name(queue),
                times.expr,
                text,
                priority=whole(priority, "priority"),
                expires_s=None if expires is None else seconds(expires, "expires"),
                max_attempts=whole(max_attempts, "max_attempts", minimum=1),
                tz=times.tz,
                missed=_checked_missed(missed),
            )

    def update(
        self,
        name: str,
        *,
        schedule: CronSchedule | str | None = None,
        payload: object = _UNSET,
        priority: int | None = None,
        expires: float | _Unset | None = _UNSET,
        max_attempts: int | _Unset | None = _UNSET,
        missed: MissedFires | None = None,
        tx: object | None = None,
    ) -> bool:
        """Change what is given; False when the name is unknown or nothing is given.

        `payload=None` stores null, `expires=None` takes the expiry away, `max_attempts=None` is the default, 3.
        """
        times = None if schedule is None else _checked_schedule(schedule)
        new_expires = None if isinstance(expires, _Unset) else expires
        new_attempts = None if isinstance(max_attempts, _Unset) else max_attempts
        with writing(self.db._storage, tx) as session:
            return session.update_schedule(
                name,
                expr=None if times is None else times.expr,
                tz=None if times is None else times.tz,
                touch_tz=times is not None,
                payload=None if isinstance(payload, _Unset) else encode(payload),
                priority=None if priority is None else whole(priority, "priority"),
                expires_s=None if new_expires is None else seconds(new_expires, "expires"),
                touch_expires=not isinstance(expires, _Unset),
                max_attempts=None if new_attempts is None else whole(new_attempts, "max_attempts", minimum=1),
                touch_max_attempts=not isinstance(max_attempts, _Unset),
                missed=None if missed is None else _checked_missed(missed),
            )

    def remove(self, name: str, *, tx: object | None = None) -> bool:
        with writing(self.db._storage, tx) as session:
            return session.remove_schedule(name)

    def pause(self, name: str, *, tx: object | None = None) -> bool:
        """False when it was paused already or is unknown."""
        with writing(self.db._storage, tx) as session:
            return session.pause_schedule(name)

    def resume(self, name: str, *, tx: object | None = None) -> bool:
        """Go on; of the fires that fell into the pause only the last is made up for."""
        with writing(self.db._storage, tx) as session:
            return session.resume_schedule(name)

    def schedules(self) -> list[Schedule]:
        """All schedules, by name."""
        with self.db._storage.reading() as session:
            return [Schedule.of(row) for row in session.list_schedules()]

    def tick(self, now: float | None = None) -> list[Fire]:
        """Enqueue what is due; each (schedule, time) once, however many processes tick."""
        at = None if now is None else seconds(now, "now")
        with self.db._storage.transaction() as session:
            return session.tick(session.now() if at is None else at)

    async def run(self, stop_event: asyncio.Event | None = None) -> None:
        """Fire schedules until stopped. LockHeld when another scheduler leads; LeadershipLost when it took over."""
        with self.db._storage.reading() as session:
            if not session.list_schedules():
                raise BrantError("no registered tasks: add a schedule before running the scheduler")
        if self._running:
            raise LockHeld(f"this scheduler runs already, with the lock {self.lock_name!r}")
        self._running = True
        heartbeat = None
        try:
            if not await asyncio.to_thread(self._lead):
                raise LockHeld(f"another scheduler holds the lock {self.lock_name!r}")
            heartbeat = asyncio.create_task(self._keep_leading())
            await self._fire_until(stop_event or asyncio.Event(), heartbeat)
        finally:
            self._running = False
            if heartbeat is not None:
                heartbeat.cancel()
            await asyncio.to_thread(self._resign)

    async def _fire_until(self, stop: asyncio.Event, heartbeat: asyncio.Task[None]) -> None:
        subscription = self.db._storage.subscribe()
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                pause: Coroutine[Any, Any, object]
                try:
                    wait_s = await asyncio.to_thread(self._step)
                    # Deaf to commits where it is in vain: each, its own as well, would have it try again at once.
                    pause = asyncio.sleep(_LOCKED_PAUSE_S) if wait_s is None else subscription.wait_async(wait_s)
                except StorageError as error:
                    pause = asyncio.sleep(_trouble_pause(error))
                woken = asyncio.create_task(pause)
                await asyncio.wait({woken, stopped, heartbeat}, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                for ended in (woken, heartbeat):
                    if ended.done():
                        ended.result()
        finally:
            stopped.cancel()
            subscription.close()

    def _step(self) -> float | None:
        """Fire what is due, if still the leader; gives the time until the next is due, None if it is but is locked."""
        with self.db._storage.reading() as session:
            holder = session.lock_holder(self.lock_name)
            due = session.next_schedule_at()
        if holder is None or holder[0] != self._owner:
            raise _lost(self.lock_name)
        if due and due <= self.db._storage.clock.now():
            with self.db._storage.transaction() as session:
                # In the same transaction as the fires: a stalled leader that lost the lock fires nothing more.
                if not session.renew_lock(self.lock_name, self._owner, self.lock_ttl):
                    raise _lost(self.lock_name)
                ticked_at = session.now()
                session.tick(ticked_at)
                due = session.next_schedule_at()
            if due and due <= ticked_at:
                return None
        if not due:
            return _SAFETY_POLL_S
        return min(max(0.0, due - self.db._storage.clock.now()), _SAFETY_POLL_S)

    async def _keep_leading(self) -> None:
        pause_s = self.heartbeat_interval
        while True:
            await asyncio.sleep(pause_s)
            try:
                if not await asyncio.to_thread(self._renew):
                    raise _lost(self.lock_name)
                pause_s = self.heartbeat_interval
            except StorageError as error:
                # Whether the lock was lost meanwhile is for the next try to find out.
                pause_s = min(_trouble_pause(error), self.heartbeat_interval)

    def _lead(self) -> bool:
        with self.db._storage.transaction() as session:
            return session.acquire_lock(self.lock_name, self._owner, self.lock_ttl)

    def _renew(self) -> bool:
        with self.db._storage.transaction() as session:
            return session.renew_lock(self.lock_name, self._owner, self.lock_ttl)

    def _resign(self) -> None:
        with self.db._storage.transaction() as session:
            session.release_lock(self.lock_name, self._owner)

    # Last, since inside the class it hides the built-in of that name.
    def list(self) -> list[dict[str, Any]]:
        """The same as dicts, the payload as the JSON text that is stored."""
        with self.db._storage.reading() as session:
            rows = session.list_schedules()
        return [row._asdict() | {"enabled": bool(row.enabled)} for row in rows]


def _trouble_pause(error: StorageError) -> float:
    """Whatever the database refuses may pass; only a file that is no longer there does not come back."""
    if isinstance(error, DatabaseReplaced):
        raise error
    import logging

    logging.getLogger("brant.scheduler").warning("trying again soon: %s", error)
    return _TROUBLE_PAUSE_S


def _lost(lock_name: str) -> LeadershipLost:
    return LeadershipLost(f"the scheduler lost the lock {lock_name!r} to another one, or it ran out")


def _checked_schedule(schedule: object) -> CronSchedule:
    if isinstance(schedule, str):
        return CronSchedule(schedule)
    if not isinstance(schedule, CronSchedule):
        raise InvalidValue(f"schedule must be a crontab(), every() or cron expression, not {schedule!r}")
    return schedule


def _checked_missed(missed: str) -> str:
    if missed not in ("skip", "one", "all"):
        raise InvalidValue(f"missed must be 'skip', 'one' or 'all', not {missed!r}")
    return missed
