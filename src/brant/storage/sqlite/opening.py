"""Opening a file: made for its owner only, in WAL mode, and with an error that says what to do."""

from __future__ import annotations

import os
import sqlite3
import time

from brant.errors import StorageError
from brant.storage.sqlite.connection import connect, translated

MINIMUM_SQLITE = (3, 38, 0)


def open_file(path: str, *, busy_timeout_ms: int, synchronous: str, create: bool) -> sqlite3.Connection:
    """The writer's connection to the file of that path or URI."""
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        raise StorageError(f"Brant needs SQLite 3.38 or later; this Python has {sqlite3.sqlite_version}")
    file = file_of(path)
    is_new = not os.path.exists(file)
    if is_new and not create:
        raise StorageError(f"there is no database at {path}")
    try:
        connection = connect(path, busy_timeout_ms=busy_timeout_ms, synchronous=synchronous)
    except sqlite3.Error as error:
        raise _unopened(path, error) from error
    try:
        connection.execute("PRAGMA schema_version").fetchone()
        if is_new and os.path.exists(file):
            os.chmod(file, 0o600)  # before the log is made, which takes its mode from this
        _enter_wal_mode(connection, busy_timeout_ms)
    except sqlite3.Error as error:
        connection.close()
        raise _unopened(path, error) from error
    return connection


def file_of(path: str) -> str:
    """The file that a path or a file: URI names."""
    if not path.startswith("file:"):
        return path
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(path).path)


def path_of(connection: sqlite3.Connection) -> str:
    """The file that a connection is open on, whose name may be no text; empty for one that is in memory.

    By a PRAGMA: a SELECT would begin to read, and a transaction that reads first can't wait for another writer.
    """
    kept, connection.text_factory = connection.text_factory, bytes
    try:
        # A cursor that knows nothing of the row_factory that the owner of the connection may have set.
        return os.fsdecode(sqlite3.Cursor(connection).execute("PRAGMA database_list").fetchone()[2] or b"")
    finally:
        connection.text_factory = kept


def same_file(path: str, other: str) -> bool:
    try:
        return path == other or os.path.samefile(path, other)
    except OSError:
        return False


def _enter_wal_mode(connection: sqlite3.Connection, busy_timeout_ms: int) -> None:
    # The switch does not wait for locks by itself, and many processes may open a new file at once.
    deadline = time.monotonic() + busy_timeout_ms / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _unopened(path: str, error: sqlite3.Error) -> Exception:
    if os.path.isdir(path):
        return StorageError(f"unable to open {path}: it is a directory; name a file")
    cause = translated(error)
    return type(cause)(f"unable to open {path}: {cause}")
