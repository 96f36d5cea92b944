"""Commands that run until they are told to stop."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class StopSignals:
    """Notes SIGINT and SIGTERM from now on, and calls `wake` so that whoever waits asks `requested()`."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._requested = False
        self._wake = wake
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def requested(self) -> bool:
        return self._requested

    def _stop(self, *_: object) -> None:
        self._requested = True
        self._wake()
