"""What a look at a database found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brant.storage.session import Session

_PATIENCE_S = 60
_MOST_UNCLAIMED = 1000


@dataclass(frozen=True)
class Health:
    """What `db.health()` found; each problem and warning says what it is and what to do."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems


def neglected(session: Session) -> list[str]:
    """What nobody has worked on for a while, and ids that are ahead of the clock."""
    now = session.now()
    patience = {"before": now - _PATIENCE_S, "most": _MOST_UNCLAIMED}
    problems = []
    ahead = session.last_job_id() / 1_000_000 - now
    if ahead > _PATIENCE_S:
        problems.append(f"the newest id is {ahead:.0f} s in the future: the clock was set back; ids go on from there")
    problems += [
        f"{count} jobs of the queue {queue!r} have a lease that ran out, and nobody claims them: start a worker"
        for queue, count in session.rows("abandoned_leases", patience)
    ]
    problems += [
        f"the schedule {name!r} is overdue: no scheduler runs; start one with 'brant schedule run'"
        for (name,) in session.rows("overdue_schedules", patience)
    ]
    problems += [
        f"the schedule {name!r} feeds the queue {queue!r}, where {count} jobs wait: nobody takes them"
        for name, queue, count in session.rows("schedules_without_consumers", patience)
    ]
    return problems
