"""Connections to an SQLite file, and sessions that run Brant's statements on one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from types import TracebackType

from brant.clock import Clock
from brant.errors import (
    BrantError,
    DatabaseBusy,
    DatabaseClosed,
    DatabaseReplaced,
    InvalidValue,
    StorageError,
    StorageFull,
)
from brant.statements import load_statements
from brant.storage.base import Row
from brant.storage.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, Self

FOLDER = os.path.dirname(__file__)
STATEMENTS = load_statements(os.path.join(FOLDER, "statements"))

# In its default mode the sqlite3 module opens a transaction before a statement that begins with INSERT, UPDATE or
# DELETE, and leaves it open. A statement that begins with WITH keeps the connection's own state.
GUARDED_STATEMENTS = {
    name: f"WITH brant AS (SELECT 1) {sql}" if sql.startswith(("INSERT", "UPDATE", "DELETE")) else sql
    for name, sql in STATEMENTS.items()
}


def connect(path: str, *, busy_timeout_ms: int, synchronous: str, read_only: bool = False) -> sqlite3.Connection:
    """A connection with Brant's settings. One that reads only never makes the file: it was there before."""
    if read_only:
        path = f"file:{_quoted(path)}?mode=rw"
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout_ms / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        uri=path.startswith("file:"),
    )
    pragmas = (
        f"busy_timeout = {busy_timeout_ms}",
        f"synchronous = {synchronous}",
        "foreign_keys = ON",
        "cache_size = -32000",
        "temp_store = MEMORY",
        # Brant checkpoints by itself, under the write lock: see SqliteStorage.
        "wal_autocheckpoint = 0",
        f"query_only = {int(read_only)}",
    )
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def text_of_any_bytes(data: bytes) -> str:
    """For connections that must read what other programs stored as text, whatever it is."""
    return data.decode("utf-8", "surrogateescape")


# What the sqlite3 module raises for a statement or for one of its values.
_REFUSALS = (sqlite3.Error, OverflowError, UnicodeEncodeError)


def _quoted(path: str) -> str:
    # What a URI gives a meaning to; urllib.parse would take longer to import than the whole connection takes.
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


class SqliteSession(Session):
    """Runs Brant's statements on a connection; `guarded` for connections that the caller owns."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock, *, guarded: bool = False) -> None:
        self.connection = connection
        self.clock = clock
        self._statements = GUARDED_STATEMENTS if guarded else STATEMENTS
        self._guarded = guarded
        self._execute = self._execute_plainly if guarded else connection.execute
        # The SQL functions leave here what went wrong in them: SQLite itself hands on no more than that something did.
        self.function_error: BaseException | None = None

    def _execute_plainly(self, sql: str, params: Sequence[object] | Mapping[str, object] = ()) -> sqlite3.Cursor:
        # A cursor that knows nothing of the row_factory that the owner of the connection may have set.
        return sqlite3.Cursor(self.connection).execute(sql, params)

    def rows(self, name: str, params: Mapping[str, object]) -> list[Row]:
        try:
            return self._execute(self._statements[name], params).fetchall()
        except _REFUSALS as error:
            raise self._translated(error) from error

    def each(self, name: str, params: Mapping[str, object]) -> Generator[Row, None, None]:
        return self._each(self._statements[name], params)

    def each_of(self, sql: str) -> Generator[Row, None, None]:
        return self._each(sql, {})

    def _each(self, sql: str, params: Mapping[str, object]) -> Generator[Row, None, None]:
        try:
            with closing(self._execute(sql, params)) as cursor:
                yield from cursor
        except _REFUSALS as error:
            raise self._translated(error) from error

    def changed(self, name: str, params: Mapping[str, object]) -> int:
        try:
            count = self._execute(self._statements[name], params).rowcount
            # The module counts only for statements that it recognises as writing, not for guarded ones.
            return int(self._execute("SELECT changes()").fetchone()[0]) if self._guarded else count
        except _REFUSALS as error:
            raise self._translated(error) from error

    def execute(self, sql: str, params: Sequence[object] = ()) -> None:
        # A statement has run by the time it is known to return rows: what RETURNING wrote must be undone.
        with self.savepoint() if "returning" in sql.lower() else nullcontext():
            cursor = self._run(sql, params)
            if cursor.description is not None:
                cursor.close()
                raise StorageError("execute() is for statements that return no rows; use query() for this one")

    def query(self, sql: str, params: Sequence[object] = ()) -> list[dict[str, Any]]:
        cursor = self._run(sql, params)
        if cursor.description is None:
            return []
        columns = [column[0] for column in cursor.description]
        try:
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _run(self, sql: str, params: Sequence[object]) -> sqlite3.Cursor:
        self.function_error = None
        try:
            return self._execute(sql, params)
        except (sqlite3.Warning, *_REFUSALS) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        inner, self.function_error = self.function_error, None
        return inner if isinstance(inner, Exception) else translated(error)

    def savepoint(self) -> AbstractContextManager[Self]:
        return Savepoint(self)

    def open_savepoint(self) -> bool:
        """False where there can be none: in a function that a writing statement calls, which is undone as a whole."""
        try:
            self._execute("SAVEPOINT brant")
        except sqlite3.Error as error:
            if "SQL statements in progress" in str(error):
                return False
            raise self._translated(error) from error
        return True

    def release_savepoint(self) -> None:
        try:
            self._execute("RELEASE brant")
        except BaseException as error:
            self.undo_savepoint(error)
            raise

    def undo_savepoint(self, cause: BaseException) -> None:
        # After some errors (a full disk) SQLite has rolled back everything, the savepoint included.
        if self.connection.in_transaction:
            self._execute("ROLLBACK TO brant")
            self._execute("RELEASE brant")
        if isinstance(cause, sqlite3.Error):
            raise self._translated(cause) from cause


class Savepoint:
    """A class and no generator: every verb inside a transaction goes through one."""

    __slots__ = ("_is_open", "_session")

    def __init__(self, session: SqliteSession) -> None:
        self._session = session

    def __enter__(self) -> Any:
        session = self._session
        is_outermost = not session.connection.in_transaction
        self._is_open = session.open_savepoint()
        if self._is_open and is_outermost:
            try:
                # It began a transaction that would fail, and not wait, if it read first and another wrote meanwhile.
                session.changed("take_write_lock", {})
            except BaseException as error:
                session.undo_savepoint(error)
                raise
        return session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if error is None:
            self._session.release_savepoint()
        else:
            self._session.undo_savepoint(error)


_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_BROKEN = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def translated(error: Exception) -> BrantError | TypeError:
    """The typed error for what the sqlite3 module raised; SQLite's own words stay in the text."""
    text = str(error)
    name = getattr(error, "sqlite_errorname", "") or ""
    if isinstance(error, OverflowError):
        return InvalidValue(f"a number is too large for SQLite, which stores 64 bits: {text}")
    if isinstance(error, UnicodeEncodeError):
        return InvalidValue(f"a text is not valid Unicode and can't be stored: {text}")
    if name == "SQLITE_READONLY_DBMOVED":
        return DatabaseReplaced("the database file was moved or deleted under the open Database; open it anew")
    if name.startswith(_FULL):
        return StorageFull(f"{text}: no room to write; free some space and try again, what was committed is safe")
    if name == "SQLITE_IOERR_WRITE":
        # Not StorageFull: a disk that is out of order says the same, and freeing space would not mend it.
        return StorageError(f"{text}: a write was refused; look for a quota, a file size limit or a failing disk")
    if name == "SQLITE_BUSY_SNAPSHOT":
        return DatabaseBusy(
            f"{text}: this transaction has read, and then another one wrote; roll it back, and BEGIN IMMEDIATE"
        )
    if name.startswith(_BUSY):
        return DatabaseBusy(f"{text}: another connection kept the write lock for too long; try again")
    if name.startswith(_BROKEN):
        return StorageError(f"{text}: the file is damaged or is no SQLite database; restore it from a backup")
    if name.startswith("SQLITE_CANTOPEN"):
        return StorageError(f"{text}: check that the directory exists and that the file may be read and written")
    if name.startswith("SQLITE_READONLY"):
        return StorageError(f"{text}: the file, its directory or this connection may not be written")
    if isinstance(error, sqlite3.ProgrammingError):
        return _misuse(text)
    return StorageError(text)


def _misuse(text: str) -> BrantError | TypeError:
    if "closed database" in text:
        return DatabaseClosed("Database is closed")
    if "type" in text and "not supported" in text:
        return TypeError(f"{text}; use None, bool, int, float, str or bytes")
    return StorageError(text)
