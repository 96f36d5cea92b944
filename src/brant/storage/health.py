"""What a look at a database found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Health:
    """What `db.health()` found; each problem and warning says what it is and what to do."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems
