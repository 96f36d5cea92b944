"""Where a claim begins to look, while the server can't remove dead rows.

As long as somebody leaves a transaction open, every job that was done since then stays in the table and its indexes,
for a claim to walk before it gets to the first live one. So when claims have become slow, and an old transaction keeps
many dead rows, the place of the first live row is remembered, and claims begin there. What comes to lie before it (one
that was given back, one whose transaction took long, the first of another priority) is found by the next look at
everything: the longer such a look takes, the more seldom it is made.
"""

from __future__ import annotations

import json
import time

from brant.storage.base import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SLOW_S = 0.005
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
        if took_s < SLOW_S or now < self._asked_at + _ASK_EVERY_S:
            return False
        self._asked_at = now
        return True

    def begin(self, queue: str) -> None:
        self._of.setdefault(queue, Floor())

    def end(self, queue: object) -> None:
        self._of.pop(str(queue), None)
