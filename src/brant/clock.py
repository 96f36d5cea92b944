"""Time as one object that is passed in, so that tests can move it.

Wall time decides when something is due; monotonic time measures how long something took.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The machine's own time."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some fixed point; never steps."""
        return time.monotonic()

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Have `callback` run when time jumps, so that waits are computed anew; returns a function that undoes this.

        Real time never jumps on purpose, so this clock calls nobody.
        """
        return lambda: None
