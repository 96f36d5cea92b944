"""Verbs of who watches: what came since the last look, and what runs."""

from __future__ import annotations

from collections import Counter

from brant.storage.base import Statements
from brant.storage.rows import NamedTuple


class RunningRow(NamedTuple):
    """A claimed job; `task` is the name of the task that it calls, if it is such a call."""

    id: int
    queue: str
    worker_id: str | None
    task: str | None
    attempts: int
    max_attempts: int
    claim_expires_at: float | None


class WatchVerbs(Statements):
    def arrivals(self, after: int, until: int) -> dict[str, int]:
        """How many jobs with an id in this range (open, closed) each queue still has, live or dead."""
        return dict(Counter(row[0] for row in self.each("arrivals", {"after": after, "until": until})))

    def running_jobs(self, queue: str, limit: int) -> list[RunningRow]:
        """Claimed jobs, those first whose lease ends first."""
        return [RunningRow(*row) for row in self.rows("running_jobs", {"queue": queue, "limit": limit})]
