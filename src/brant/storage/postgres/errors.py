"""What the server or the driver says, as Brant's errors."""

from __future__ import annotations

import psycopg
from psycopg import errors

from brant.errors import BrantError, DatabaseBusy, InvalidValue, StorageError, StorageFull

# What the driver raises for a statement or for one of its values.
REFUSALS = (psycopg.Error, OverflowError, UnicodeEncodeError, TypeError)


def translated(error: Exception, *, own: bool = True) -> BrantError | TypeError:
    """The typed error for what the driver raised; `own` for Brant's statements, whose values were the caller's."""
    text = told(error)
    if isinstance(error, UnicodeEncodeError):
        return InvalidValue(f"a text is not valid Unicode and can't be stored: {error}")
    if isinstance(error, TypeError):
        return error
    if isinstance(error, OverflowError | errors.NumericValueOutOfRange):
        return InvalidValue(f"a number is too large for the database, which stores 64 bits: {text}")
    if isinstance(error, errors.DiskFull | errors.OutOfMemory):
        return StorageFull(f"{text}: no room on the server; what was committed is safe")
    if isinstance(error, _TRY_AGAIN):
        return DatabaseBusy(f"{text}: try again")
    if isinstance(error, psycopg.Error) and is_lost(error):
        return DatabaseBusy(f"the connection to the database was lost: {text}; what was not committed is undone")
    if "cannot contain NUL" in text or isinstance(
        error, errors.UntranslatableCharacter | errors.CharacterNotInRepertoire
    ):
        return InvalidValue("a text holds a NUL character, which Postgres can't store; remove it")
    if own and isinstance(error, psycopg.DataError):
        return InvalidValue(f"a value can't be stored: {text}")
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None and "cannot adapt" in text:
        return TypeError(f"{text}; use None, bool, int, float, str or bytes")
    return StorageError(text)


_TRY_AGAIN = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.QueryCanceled,
    errors.TooManyConnections,
    errors.CannotConnectNow,
)
# The server says so, and ends the connection.
_ENDED = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.IdleInTransactionSessionTimeout,
    errors.IdleSessionTimeout,
)


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, and with it whatever was not committed."""
    return isinstance(error, _ENDED) or (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None
    )


def told(error: Exception) -> str:
    """The first sentence of what the server said, without the position and the context."""
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    return str(primary or str(error).strip().partition("\n")[0] or type(error).__name__)
