"""Verbs of limits: how many jobs of a key, or of a queue, may run at once or start in a span of time.

What runs is never counted in a place of its own, from which it could leak: it is what is leased. A due job whose key
has no room is held back, by a run_at in the far future, so that no later claim walks it; its key is woken (`wake_at`)
by triggers when a lease ends, or by the clock when a start leaves the window, and then lets as many go as have room.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from brant.storage.base import Row, Statements
from brant.storage.rows import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Params = dict[str, Any]

OF_QUEUE = ""
# How many candidates are looked at in one step, and how many of them one claim may hold back.
_PAGE = 500
_MOST_HELD_BACK = 10_000
# How many woken keys are read in one step, and looked at by one claim.
_WOKEN_PAGE = 20
_MOST_WOKEN = 200
# Those that were let go leave room when they run or end; should that stay unnoticed, their key is woken all the same.
_SAFETY_WAKE_S = 60
_ALL = 2**31


class LimitRow(NamedTuple):
    """What `brant.limit.Limit` is made of."""

    key: str
    max_running: int | None
    max_starts: int | None
    per_s: float | None


class _Room:
    """How many more jobs of a key may start, as far as it matters to this claim."""

    def __init__(self, limit: LimitRow, free: int) -> None:
        self.limit = limit
        self.free = free
        self.started: list[int] = []

    def admit(self, job_id: int) -> bool:
        if self.free <= 0:
            return False
        self.free -= 1
        self.started.append(job_id)
        return True


class LimitVerbs(Statements):
    def set_limit(self, queue: str, limit: LimitRow) -> None:
        """Add the limit, or change the one of its key: the newest settings hold for all jobs of the key."""
        self.changed("set_limit", {"queue": queue, **limit._asdict()})

    def drop_limit(self, queue: str, key: str) -> bool:
        return self.changed("drop_limit", {"queue": queue, "key": key}) > 0

    def list_limits(self, queue: str) -> list[LimitRow]:
        return [LimitRow(*row) for row in self.rows("list_limits", {"queue": queue})]

    def _limit_jobs(self, queue: str, ids: Sequence[int], limit: LimitRow, priority: int) -> None:
        """Put new jobs under the limit."""
        self.forget_unused_limits()
        self.set_limit(queue, limit)
        self.changed(
            "limit_jobs", {"queue": queue, "key": limit.key, "priority": priority, "ids": json.dumps(list(ids))}
        )

    def forget_unused_limits(self) -> int:
        """Forget some of the keys that have no jobs and whose starts count no more."""
        return self.changed("forget_unused_limits", self.times())

    def _claim_overdue(self, params: Params, limit: int) -> list[Row]:
        """Lease those that are due longest, if that is longer than `max_wait`."""
        found = self.rows("overdue_candidates", params | {"limit": limit})
        return self._lease(params, [row[0] for row in found])

    def _claim_within_limits(self, params: Params, limit: int, overdue: int) -> list[Row]:
        """Lease due jobs, in order, as far as their limits allow; the others are held back. A negative limit: all."""
        wanted = _ALL if limit < 0 else limit
        of_queue = self._room(params, OF_QUEUE, wanted)
        if of_queue is not None:
            wanted = min(wanted, of_queue.free)
        if wanted <= 0:
            return []
        self._let_go_woken(params, wanted, overdue > 0)
        rooms: dict[str, _Room | None] = {}
        claimed: list[Row] = []
        held_back = 0
        if overdue:
            found = self.rows("overdue_candidates", params | {"limit": min(overdue, wanted)})
            claimed, held_back = self._admit(params, found, wanted, rooms)
        more = True
        while more and len(claimed) < wanted and held_back < _MOST_HELD_BACK:
            left = wanted - len(claimed)
            page = min(left, _PAGE) if held_back == 0 else _PAGE
            found = self.rows("candidates", params | {"limit": page})
            leased, refused = self._admit(params, found, left, rooms)
            claimed += leased
            held_back += refused
            more = len(found) == page
        if of_queue is not None:
            of_queue.started = [row[0] for row in claimed]
        for room in (of_queue, *rooms.values()):
            if room is not None:
                self._note(params, room)
        return claimed

    def _admit(
        self, params: Params, found: Sequence[Row], wanted: int, rooms: dict[str, _Room | None]
    ) -> tuple[list[Row], int]:
        """Lease up to `wanted` of the candidates; tells how many of those before the last of them were held back."""
        admitted: list[int] = []
        refused: list[int] = []
        for job_id, key in found:
            if len(admitted) == wanted:
                break
            if key is not None and key not in rooms:
                # One more than can be used: so that what has been filled by this claim is known from what is full.
                rooms[key] = self._room(params, key, wanted + 1)
            room = None if key is None else rooms[key]
            (admitted if room is None or room.admit(job_id) else refused).append(job_id)
        if refused:
            ids = {"ids": json.dumps(refused)}
            self.changed("note_held_back", ids)
            self.changed("hold_back", ids)
        return self._lease(params, admitted), len(refused)

    def _lease(self, params: Params, ids: Sequence[int]) -> list[Row]:
        return self.rows("claim_ids", params | {"ids": json.dumps(ids)}) if ids else []

    def _room(self, params: Params, key: str, most: int) -> _Room | None:
        """The room of a key, counted up to `most`; None where it has no limit."""
        of_key = params | {"key": key}
        found = self.rows("limit_of_key", of_key)
        if not found:
            return None
        limit = LimitRow(key, *found[0])
        free = most
        if limit.max_running is not None:
            counting = "running_of_queue" if key == OF_QUEUE else "running_of_key"
            free = min(free, limit.max_running - self.value(counting, of_key | {"bound": limit.max_running}))
        if limit.max_starts is not None and free > 0:
            bound = min(free, limit.max_starts)
            free = bound - self.value("starts_too_early", of_key | limit._asdict() | {"bound": bound})
        return _Room(limit, free)

    def _note(self, params: Params, room: _Room) -> None:
        """Keep the times of the starts, and see to it that those who are held back are woken."""
        of_key = params | room.limit._asdict()
        if room.started and room.limit.max_starts is not None:
            self.changed("note_starts", of_key | {"ids": json.dumps(room.started)})
            self.changed("forget_starts", of_key)
        if room.free <= 0 and room.limit.key != OF_QUEUE:
            self.changed("wake_key_if_needed", of_key | {"wake_at": self._next_start_at(params, room.limit)})

    def _next_start_at(self, params: Params, limit: LimitRow) -> float | None:
        """When the window lets the next one start; None when it would do so now."""
        if limit.max_starts is None:
            return None
        at: float | None = self.value("next_start_at", params | limit._asdict())
        return at if at is not None and at > params["now"] else None

    def _let_go_woken(self, params: Params, wanted: int, with_longest: bool) -> None:
        """Of the keys that were woken, let those go that have room, until there are enough for this claim."""
        let_go = 0
        for _ in range(_MOST_WOKEN // _WOKEN_PAGE):
            keys = self.rows("woken_keys", params | {"limit": _WOKEN_PAGE})
            let_go += sum(self._let_go(params | {"key": key}, max(wanted, _PAGE), with_longest) for (key,) in keys)
            if let_go >= wanted or len(keys) < _WOKEN_PAGE:
                return

    def _let_go(self, of_key: Params, most: int, with_longest: bool) -> int:
        """Let the best of a key go, up to `most`, and say when to look again for those that stay."""
        room = self._room(of_key, of_key["key"], most)
        free = most if room is None else max(room.free, 0)
        waiting = [row[0] for row in self.rows("best_held_back", of_key | {"limit": free + 1})]
        going = waiting[:free]
        if going and with_longest:
            going += [row[0] for row in self.rows("longest_held_back", of_key) if row[0] not in going]
        if going:
            ids = {"ids": json.dumps(going)}
            self.changed("let_go", ids)
            self.changed("note_let_go", ids)
        wake_at: float | None = None
        if len(waiting) > free:
            if free == 0 and room is not None:
                wake_at = self._next_start_at(of_key, room.limit)
            else:
                wake_at = 0 if free == most else of_key["now"] + _SAFETY_WAKE_S
        self.changed("wake_key", of_key | {"wake_at": wake_at})
        return len(going)

    def _claimable_within_limits(
        self, params: Params, due: bool, next_run: float | None, next_lapse: float | None
    ) -> tuple[bool, tuple[float | None, ...]]:
        """Whether a claim would find something to do, and the moments when it next might, of a queue with limits."""
        lapsed, woken, next_wake, next_expiry = self.rows("limited_claimable", params)[0]
        of_queue = self._room(params, OF_QUEUE, 1)
        if of_queue is not None and of_queue.free <= 0:
            return bool(lapsed), (next_lapse, self._next_start_at(params, of_queue.limit))
        return due or bool(woken), (next_run, next_lapse, next_wake, next_expiry)
