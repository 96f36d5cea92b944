"""The SQLite backend: one file in WAL mode, one writer and a few readers a process."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import Literal

from brant.clock import Clock
from brant.errors import DatabaseClosed, StorageError, TransactionError
from brant.storage.base import Health, Storage
from brant.storage.session import Session
from brant.storage.sqlite.adopt import sqlite_connection
from brant.storage.sqlite.connection import SqliteSession, connect, translated
from brant.storage.sqlite.functions import register_functions
from brant.storage.sqlite.health import examine
from brant.storage.sqlite.schema import prepare, retire_old_layout
from brant.storage.sqlite.wake import FileWatch
from brant.storage.subscription import Subscription

MINIMUM_SQLITE = (3, 38, 0)
# Checkpoint when the log is larger; after one that a reader blocked, leave the readers a second.
_CHECKPOINT_BYTES = 4 * 1024 * 1024
_CHECKPOINT_PAUSE_S = 1.0
_FILE_CHECK_S = 0.5

_open_storages: weakref.WeakSet[SqliteStorage] = weakref.WeakSet()
_inherited: list[object] = []
_inside: ContextVar[tuple[SqliteStorage, ...]] = ContextVar("brant_transactions", default=())


class SqliteStorage(Storage):
    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        max_readers: int = 8,
        busy_timeout_ms: int = 5000,
        synchronous: str = "NORMAL",
        watcher: Literal["auto", "poll"] = "auto",
        create: bool = True,
    ) -> None:
        self.clock = clock
        self.unusable: str | None = None
        self._settings = {"busy_timeout_ms": busy_timeout_ms, "synchronous": synchronous}
        self._writer = _open_file(path, busy_timeout_ms, synchronous, create)
        self._write_session = SqliteSession(self._writer, clock)
        try:
            self.target = self._writer.execute("PRAGMA database_list").fetchone()[2]
            self._log_path = self.target + "-wal"
            prepare(self._write_session)
        except BaseException:
            self._writer.close()
            raise
        self._functions_registered = False
        self._slot = threading.Lock()
        self._slot_owner: int | None = None
        self._changes_before = 0
        self._idle_readers: list[SqliteSession] = []
        self._idle_readers_lock = threading.Lock()
        self._reader_slots = threading.BoundedSemaphore(max_readers)
        self._watch = FileWatch(self.target, self._connect_reader, mode=watcher)
        self._next_file_check = 0.0
        self._next_checkpoint = 0.0
        _open_storages.add(self)

    # Writing

    def transaction(self) -> WriteTransaction:
        return WriteTransaction(self)

    def in_transaction(self) -> bool:
        return self._slot_owner == threading.get_ident() or self in _inside.get()

    def begin(self) -> Session:
        self.require_open()
        if self.in_transaction():
            raise TransactionError(
                "nested db.transaction(): this thread or task has one open already; pass it on as tx= instead"
            )
        self._slot.acquire()
        try:
            self.require_open()
            self._check_file()
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._slot.release()
            raise translated(error) from error
        except BaseException:
            self._slot.release()
            raise
        self._slot_owner = threading.get_ident()
        self._changes_before = self._writer.total_changes
        return self._write_session

    def commit(self) -> None:
        wrote = self._writer.total_changes != self._changes_before
        try:
            if not self._writer.in_transaction:
                raise TransactionError(
                    "the transaction was ended inside the block (by a COMMIT, a ROLLBACK or an error of the disk): "
                    "what was written since then is not part of it"
                )
            self._writer.execute("COMMIT")
            self._checkpoint_when_large()
        except sqlite3.Error as error:
            self._undo()
            raise translated(error) from error
        finally:
            self._release_slot()
        if wrote:
            self._watch.committed()

    def rollback(self) -> None:
        try:
            self._undo()
        finally:
            self._release_slot()

    def _undo(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _release_slot(self) -> None:
        self._slot_owner = None
        self._slot.release()

    def _check_file(self) -> None:
        # A replaced file would take every further commit with it in silence, into an inode that nobody can open.
        now = time.monotonic()
        if now >= self._next_file_check:
            self._watch.check_file()
            self._next_file_check = now + _FILE_CHECK_S

    def _checkpoint_when_large(self) -> None:
        # From this one place and under the write lock, which TRUNCATE takes: SQLite before 3.51.3 can corrupt a file
        # when one connection checkpoints while another one restarts the log.
        try:
            log_bytes = os.stat(self._log_path).st_size  # noqa: PTH116, on the path of every commit
        except FileNotFoundError:
            return
        if log_bytes < _CHECKPOINT_BYTES or time.monotonic() < self._next_checkpoint:
            return
        self._writer.execute("PRAGMA busy_timeout = 20")
        try:
            blocked = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError:
            blocked = True
        finally:
            self._writer.execute(f"PRAGMA busy_timeout = {self._settings['busy_timeout_ms']}")
        if blocked:
            self._next_checkpoint = time.monotonic() + _CHECKPOINT_PAUSE_S

    def adopt(self, connection: object) -> Session:
        self.require_open()
        found = sqlite_connection(connection)
        path = found.execute("PRAGMA database_list").fetchone()[2]
        if path != self.target and not (path and Path(path).samefile(self.target)):
            raise TransactionError(
                f"the connection passed as tx= is open on {path or 'a temporary database'}, not on {self.target}"
            )
        return SqliteSession(found, self.clock, guarded=True)

    def user_session(self) -> Session:
        """The writing session with the SQL functions on it, for statements of the user's own."""
        if not self._functions_registered:
            register_functions(self._write_session)
            self._functions_registered = True
        return self._write_session

    def retire_old_layout(self) -> None:
        with self.reading() as session:
            if not session.rows("old_layout", {}):
                return
        with self.transaction() as session:
            retire_old_layout(session)

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Session]:
        self.require_open()
        with self._reader_slots:
            session = self._borrow_reader()
            try:
                yield session
            finally:
                self._give_back(session)

    def _borrow_reader(self) -> SqliteSession:
        with self._idle_readers_lock:
            if self._idle_readers:
                return self._idle_readers.pop()
        return SqliteSession(self._connect_reader(), self.clock)

    def _give_back(self, session: SqliteSession) -> None:
        with self._idle_readers_lock:
            if self.unusable is None:
                self._idle_readers.append(session)
                return
        session.connection.close()

    def _connect_reader(self) -> sqlite3.Connection:
        try:
            return connect(self.target, read_only=True, **self._settings)  # type: ignore[arg-type]
        except sqlite3.Error as error:
            raise translated(error) from error

    # Life

    def subscribe(self) -> Subscription:
        self.require_open()
        return self._watch.subscribe()

    def wake(self) -> None:
        """Have every waiter look again, as after a commit."""
        self._watch.subscribers.ring_all()

    def require_open(self) -> None:
        if self.unusable is not None:
            raise DatabaseClosed(self.unusable)

    def health(self) -> Health:
        with self.reading() as session:
            return examine(session, self.target, self._watch)

    def close(self) -> None:
        if self.unusable is not None:
            return
        if self.in_transaction():
            raise TransactionError("close() inside a transaction: leave its block first")
        with self._slot:
            with self._idle_readers_lock:
                self.unusable = "Database is closed"
            self._watch.close(DatabaseClosed("Database is closed: its watcher has ended"))
            # Readers that are at work close when they are given back.
            for session in self._idle_readers:
                session.connection.close()
            self._writer.close()

    def disown(self) -> None:
        """In a child after fork: refuse everything and close nothing, for the locks are the parent's."""
        self.unusable = "this Database was opened in another process, before a fork; open it anew in this one"
        _inherited.append((self._writer, self._idle_readers, self._watch))


class WriteTransaction:
    """BEGIN IMMEDIATE to COMMIT, or ROLLBACK on an exception."""

    __slots__ = ("_storage", "_token")

    def __init__(self, storage: SqliteStorage) -> None:
        self._storage = storage
        self._token: Token[tuple[SqliteStorage, ...]] | None = None

    def __enter__(self) -> Session:
        session = self._storage.begin()
        self._token = _inside.set((*_inside.get(), self._storage))
        return session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            try:
                _inside.reset(self._token)
            except ValueError:
                pass  # entered in another context (an async fixture): that one ends with its task
        if kind is None:
            self._storage.commit()
        else:
            self._storage.rollback()


def _open_file(path: str, busy_timeout_ms: int, synchronous: str, create: bool) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        raise StorageError(f"Brant needs SQLite 3.38 or later; this Python has {sqlite3.sqlite_version}")
    is_new = not path.startswith("file:") and not Path(path).exists()
    if is_new and not create:
        raise StorageError(f"there is no database at {path}")
    try:
        connection = connect(path, busy_timeout_ms=busy_timeout_ms, synchronous=synchronous)
    except sqlite3.Error as error:
        raise _unopened(path, error) from error
    try:
        connection.execute("PRAGMA schema_version").fetchone()
        if is_new:
            Path(path).chmod(0o600)  # before the log is made, which takes its mode from this
        _enter_wal_mode(connection, busy_timeout_ms)
    except sqlite3.Error as error:
        connection.close()
        raise _unopened(path, error) from error
    return connection


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
    if Path(path).is_dir():
        return StorageError(f"unable to open {path}: it is a directory; name a file")
    cause = translated(error)
    return type(cause)(f"unable to open {path}: {cause}")


def _disown_all() -> None:
    for storage in list(_open_storages):
        storage.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
