"""Every error that Brant raises on purpose.

One base, so that ``except BrantError`` is enough; it is a RuntimeError, so that programs which came
from Honker and catch that go on working. Errors about a bad argument are ValueErrors too.
"""

from __future__ import annotations


class BrantError(RuntimeError):
    """The base of all of them."""


class InvalidValue(BrantError, ValueError):
    """An argument is outside what the call accepts; nothing was written."""


class QueueNameError(InvalidValue):
    """A queue or alias name that can't be used."""


class StorageError(BrantError):
    """The database refused or failed: not a database, corrupt, unreadable, an SQL error."""


class StorageFull(StorageError):
    """There is no room left to write; what was committed before is safe."""


class DatabaseBusy(StorageError):
    """Another connection held the write lock for longer than the busy timeout; try again."""


class DatabaseReplaced(StorageError):
    """The file was moved, deleted or replaced under an open Database; open it anew."""


class DatabaseClosed(BrantError):
    """The Database was closed, or was opened in another process (before a fork)."""


class TransactionError(BrantError):
    """A transaction was used outside its block, nested, or ended behind Brant's back."""


class ClaimLost(BrantError):
    """The job is no longer this worker's: its lease ran out, or it was cancelled or taken over."""


class LockHeld(BrantError):
    """Somebody else holds the lock."""


class LeadershipLost(BrantError):
    """The scheduler lost its lock to another one and stopped."""


class TaskFailed(BrantError):
    """The job whose result was awaited ended as a dead letter."""

    def __init__(self, message: str, *, error: str | None = None, attempts: int = 0) -> None:
        super().__init__(message)
        self.error = error
        self.attempts = attempts


class Retryable(BrantError):
    """Raised by a handler to ask for another attempt after ``delay_s`` seconds."""

    def __init__(self, message: str = "", delay_s: float = 60) -> None:
        super().__init__(message)
        self.delay_s = delay_s
