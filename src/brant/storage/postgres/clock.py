"""The server's time, so that hosts whose clocks differ agree on what is due."""

from __future__ import annotations

import threading
import time

from brant.clock import Clock

_FRESH_S = 30.0


class ServerClock(Clock):
    """The time of the server: monotonic time of this machine plus an offset, which is measured now and then.

    A wrong or jumping clock of this machine has no effect, and asking for the time costs no round trip.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset: float | None = None
        self._error = 0.0
        self._measured_at = 0.0

    def now(self) -> float:
        # Before the first measurement there is no server that could be asked for anything.
        return time.time() if self._offset is None else time.monotonic() + self._offset

    @property
    def is_stale(self) -> bool:
        """Whether it is time for another measurement."""
        return self._offset is None or time.monotonic() - self._measured_at > _FRESH_S

    def measured(self, before: float, after: float, server_now: float) -> None:
        """Take note of what the server's clock said between two moments of monotonic time.

        A measurement that agrees with the present offset, within the error of both, changes nothing: time is not to
        jitter. A more exact one, or one that disagrees, takes its place.
        """
        error = (after - before) / 2
        offset = server_now - (before + after) / 2
        with self._lock:
            self._measured_at = after
            agrees = self._offset is not None and abs(offset - self._offset) <= error + self._error
            if not agrees or error < self._error / 2:
                self._offset, self._error = offset, error
