"""Commands that run until they are told to stop."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Terminated(BaseException):
    """SIGTERM has come: no error, and nothing that may be caught on the way."""


class StopSignals:
    """Notes SIGINT and SIGTERM from now on, and calls `wake` so that whoever waits asks `requested()`."""

    def __init__(self, wake: Callable[[], object] = lambda: None) -> None:
        self.number: int | None = None
        self._wake = wake
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def requested(self) -> bool:
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """Of a command that was stopped before it was done; 0 when none was asked for."""
        return 0 if self.number is None else 128 + self.number

    def raise_if_requested(self) -> None:
        """End the command as the signal would have done."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is not None:
            raise Terminated

    def _stop(self, number: int, _: object) -> None:
        self.number = number
        self._wake()
