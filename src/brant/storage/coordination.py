"""Verbs of locks, rate limits and results."""

from __future__ import annotations

import math

from brant.storage.base import Statements


class CoordinationVerbs(Statements):
    def _at_least(self, seconds: float) -> float:
        """A time not earlier than `seconds` from now: in whole seconds, unless a fraction was asked for."""
        now = self.now()
        if seconds != int(seconds):
            return now + seconds
        # 0 or less is over at once: not rounded up to the next second.
        return (math.ceil(now) if seconds > 0 else int(now)) + int(seconds)

    def acquire_lock(self, name: str, owner: str, ttl: float) -> bool:
        """Whether `owner` holds the lock now; holding it already does not prolong it."""
        params = self.times() | {"name": name, "owner": owner, "expires_at": self._at_least(ttl)}
        self.changed("acquire_lock", params)
        holder = self.lock_holder(name)
        # Nobody, if whoever held it let go of it this moment.
        return holder is not None and holder[0] == owner

    def lock_holder(self, name: str) -> tuple[str, float] | None:
        """Who took the lock last, and until when; None when it was released."""
        found = self.rows("lock_owner", {"name": name})
        return (found[0][0], found[0][1]) if found else None

    def renew_lock(self, name: str, owner: str, ttl: float) -> bool:
        """Prolong a lock that is still held; one that ran out is lost, even if nobody has taken it yet."""
        params = self.times() | {"name": name, "owner": owner, "expires_at": self._at_least(ttl)}
        return self.changed("renew_lock", params) > 0

    def release_lock(self, name: str, owner: str) -> bool:
        return self.changed("release_lock", {"name": name, "owner": owner}) > 0

    def sweep_locks(self) -> int:
        return self.changed("sweep_locks", self.times())

    def try_rate_limit(self, name: str, limit: int, per: int) -> bool:
        """Count one more in the current window of `per` seconds, unless `limit` are in it already."""
        window_start = int(self.now()) // per * per
        return bool(self.rows("try_rate_limit", {"name": name, "window_start": window_start, "limit": limit}))

    def sweep_rate_limits(self, older_than: float) -> int:
        return self.changed("sweep_rate_limits", {"before": int(self.now()) - older_than})

    def save_result(self, job_id: int, value: str, ttl: float) -> None:
        """Store a result; a ttl of 0 or less keeps it until it is overwritten."""
        params = self.times() | {
            "job_id": job_id,
            "value": value,
            "expires_at": self._at_least(ttl) if ttl > 0 else None,
        }
        self.changed("save_result", params)

    def get_result(self, job_id: int) -> tuple[bool, str | None]:
        found = self.rows("get_result", self.times() | {"job_id": job_id})
        return (True, found[0][0]) if found else (False, None)

    def sweep_results(self) -> int:
        return self.changed("sweep_results", self.times())
