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
from types import TracebackType

from brant.clock import Clock
from brant.errors import (
    BrantError,
    DatabaseClosed,
    DatabaseReplaced,
    InvalidValue,
    StorageError,
    StorageFull,
    TransactionError,
)
from brant.storage.base import Storage
from brant.storage.session import Session
from brant.storage.sqlite.adopt import begins_by_itself, sqlite_connection
from brant.storage.sqlite.connection import SqliteSession, connect, translated
from brant.storage.sqlite.schema import prepare, retire_old_layout
from brant.storage.sqlite.wake import FileWatch
from brant.storage.subscription import Subscription

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from brant.storage.health import Health

MINIMUM_SQLITE = (3, 38, 0)
# When to checkpoint. The pages that a commit adds to the log are estimated, since SQLite tells Python nothing of them.
_PAGES_A_COMMIT = 5
_ROWS_A_PAGE = 3
_CHECKPOINT_PAGES = 1500
_PAGES_A_LOOK = 100
_LARGEST_LOG_BYTES = 8 * 1024 * 1024
# A reader with an old snapshot blocks a checkpoint: how long to wait for it, and when to try again.
_CHECKPOINT_PATIENCE_MS = 20
_CHECKPOINT_PAUSE_S = 1.0
_FILE_CHECK_S = 0.5

_open_storages: weakref.WeakSet[SqliteStorage] = weakref.WeakSet()
_inherited: list[SqliteStorage] = []
_inside: ContextVar[tuple[WriteTransaction, ...]] = ContextVar("brant_transactions", default=())


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
        poll_s: float | None = None,
        create: bool = True,
    ) -> None:
        self.clock = clock
        self.unusable: str | None = None
        self._settings = {"busy_timeout_ms": busy_timeout_ms, "synchronous": synchronous}
        self._writer = _open_file(path, busy_timeout_ms, synchronous, create)
        self._write_session = SqliteSession(self._writer, clock)
        try:
            self.target = self._writer.execute("PRAGMA database_list").fetchone()[2]
            if not self.target:
                raise InvalidValue(f"{path!r} names no file; ':memory:' gives a private temporary one")
            self._log_path = self.target + "-wal"
            prepare(self._write_session)
        except BaseException:
            self._writer.close()
            raise
        self._functions_registered = False
        self._slot = threading.Lock()
        self._slot_owner: int | None = None
        self._slot_block: WriteTransaction | None = None
        self._changes_before = 0
        self._short_of_room = False
        self._idle_readers: list[SqliteSession] = []
        self._idle_readers_lock = threading.Lock()
        self._readers_lent = 0
        self._idle_at_fork = False
        self._reader_slots = threading.BoundedSemaphore(max_readers)
        self._watch = FileWatch(self.target, self._connect_reader, mode=watcher, poll_s=poll_s)
        self._next_file_check = 0.0
        self._next_checkpoint = 0.0
        self._log_pages = 0
        self._next_log_look = 0
        _open_storages.add(self)

    # Writing

    def transaction(self) -> WriteTransaction:
        return WriteTransaction(self)

    def in_transaction(self) -> bool:
        # A task started inside a block inherits its context and may outlive it: only the block that is open counts.
        return self._slot_owner == threading.get_ident() or self._slot_block in _inside.get()

    def begin(self, block: WriteTransaction) -> Session:
        self.require_open()
        if self.in_transaction():
            raise TransactionError(
                "nested db.transaction(): this thread or task has one open already; pass it on as tx= instead"
            )
        self._slot.acquire()
        try:
            self.require_open()
            self._check_file()
            if self._short_of_room:
                self._make_room()
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._slot.release()
            raise self._explained(error) from error
        except BaseException:
            self._undo()
            self._slot.release()
            raise
        self._slot_owner = threading.get_ident()
        self._slot_block = block
        self._changes_before = self._writer.total_changes
        return self._write_session

    def commit(self) -> None:
        rows_written = self._writer.total_changes - self._changes_before
        try:
            self.require_transaction()
            self._writer.execute("COMMIT")
            self._checkpoint_now_and_then(rows_written)
        except sqlite3.Error as error:
            self._undo()
            problem = self._explained(error)
            self._short_of_room |= isinstance(problem, StorageFull)
            raise problem from error
        finally:
            self._release_slot()
        if rows_written:
            self._watch.committed()

    def require_transaction(self) -> None:
        self.require_open()
        if not self._writer.in_transaction:
            raise TransactionError(
                "the transaction was ended inside the block (by a COMMIT, a ROLLBACK or an error of the disk): "
                "nothing more can be done in it"
            )

    def rollback(self, cause: BaseException | None) -> None:
        try:
            # In a child after fork the transaction is the parent's.
            if self.unusable is None:
                self._undo()
                self._short_of_room |= isinstance(cause, StorageFull)
        finally:
            self._release_slot()

    def _undo(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _release_slot(self) -> None:
        self._slot_owner = self._slot_block = None
        self._slot.release()

    def _explained(self, error: sqlite3.Error) -> Exception:
        try:
            self._watch.check_file()
        except DatabaseReplaced as reason:
            return reason  # SQLite itself calls that an I/O error, or worse
        return translated(error)

    def _check_file(self) -> None:
        # A replaced file would take every further commit with it in silence, into an inode that nobody can open.
        now = time.monotonic()
        if now >= self._next_file_check:
            self._watch.check_file()
            self._next_file_check = now + _FILE_CHECK_S

    def _checkpoint_now_and_then(self, rows_written: int) -> None:
        # From this one place and under the write lock, which RESTART and TRUNCATE take: SQLite before 3.51.3 can
        # corrupt a file when one connection checkpoints while another one restarts the log.
        self._log_pages += _PAGES_A_COMMIT + rows_written // _ROWS_A_PAGE
        if self._log_pages < self._next_log_look:
            return
        self._next_log_look = self._log_pages + _PAGES_A_LOOK
        log_bytes = os.stat(self._log_path).st_size if os.path.exists(self._log_path) else 0
        too_large = log_bytes > _LARGEST_LOG_BYTES
        if (too_large or self._log_pages > _CHECKPOINT_PAGES) and time.monotonic() > self._next_checkpoint:
            # A log that is overwritten is much faster than one that has to grow anew: shrink it only when it must be.
            self._checkpoint("TRUNCATE" if too_large else "RESTART")

    def _make_room(self) -> None:
        # Once the disk was full, and until there is plenty again: the little that is left is not for the log to grow.
        import shutil

        self._checkpoint("TRUNCATE")
        self._short_of_room = shutil.disk_usage(self.target).free < 2 * _LARGEST_LOG_BYTES

    def _checkpoint(self, mode: str) -> bool:
        self._writer.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_PATIENCE_MS}")
        try:
            blocked = self._writer.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]
        except sqlite3.Error:  # the commit is done, whatever becomes of this
            blocked = True
        finally:
            self._writer.execute(f"PRAGMA busy_timeout = {self._settings['busy_timeout_ms']}")
        if blocked:
            self._next_checkpoint = time.monotonic() + _CHECKPOINT_PAUSE_S
        else:
            self._log_pages = self._next_log_look = 0
        return not blocked

    def adopt(self, connection: object) -> Session:
        self.require_open()
        self._check_file()
        found = sqlite_connection(connection)
        try:
            session = SqliteSession(found, self.clock, guarded=True)
            path = session.query("PRAGMA database_list")[0]["file"]
        except BrantError as error:
            raise TransactionError(f"the connection passed as tx= can't be used: {error}") from error
        if not _same_file(path, self.target):
            raise TransactionError(
                f"the connection passed as tx= is open on {path or 'a temporary database'}, not on {self.target}"
            )
        if begins_by_itself(found):
            session.execute("BEGIN IMMEDIATE")
        return session

    def user_session(self) -> Session:
        """The writing session with the SQL functions on it, for statements of the user's own."""
        if not self._functions_registered:
            from brant.storage.sqlite.functions import register_functions

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
            self._readers_lent += 1
            if self._idle_readers:
                return self._idle_readers.pop()
        try:
            return SqliteSession(self._connect_reader(), self.clock)
        except BaseException:
            self._readers_lent -= 1
            raise

    def _give_back(self, session: SqliteSession) -> None:
        if session.connection.in_transaction:
            session.connection.rollback()  # a BEGIN of the user's own would keep its snapshot for ever
        with self._idle_readers_lock:
            self._readers_lent -= 1
            if self.unusable is None:
                self._idle_readers.append(session)
                return
        session.connection.close()

    def _connect_reader(self) -> sqlite3.Connection:
        # Opening what has taken the place of the file would mix its pages with the log of the old one.
        self._watch.check_file()
        try:
            return connect(self.target, read_only=True, **self._settings)  # type: ignore[arg-type]
        except sqlite3.Error as error:
            raise self._explained(error) from error

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

    def health(self, *, thorough: bool = False) -> Health:
        from brant.storage.sqlite.health import examine

        with self.reading() as session:
            return examine(session, self.target, self._watch, self._log_is_pinned if thorough else None)

    def _log_is_pinned(self) -> bool:
        """Whether a reader keeps the log from being emptied; empties it otherwise."""
        if self.in_transaction():
            return False
        with self._slot:
            return not self._checkpoint("TRUNCATE")

    def compact(self) -> None:
        from brant.storage.sqlite.upkeep import compact

        self.require_open()
        if self.in_transaction():
            raise TransactionError("compacting inside a transaction: leave its block first")
        with self._slot:
            compact(self._writer)

    def backup(self, destination: str) -> None:
        from brant.storage.sqlite.upkeep import copy

        self.require_open()
        source = self._connect_reader()
        try:
            copy(source, destination)
        finally:
            source.close()

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
        """In a child after fork: refuse everything, and close nothing for now."""
        if self.unusable is not None:
            return
        self.unusable = "this Database was opened in another process, before a fork; open it anew in this one"
        # Where a thread that the child has not got was at work, its locks are never released.
        self._idle_at_fork = (
            self._slot.acquire(blocking=False)
            and self._idle_readers_lock.acquire(blocking=False)
            and not self._readers_lent
        )
        self._idle_readers_lock = threading.Lock()
        _inherited.append(self)

    def let_go(self) -> None:
        """Close the connections that came with a fork, before the file is opened anew.

        SQLite takes them for holders of its locks, which are the parent's in truth: a new connection beside them
        would lock nothing, and the parent's close would unlink the log and with it the child's commits.
        """
        try:
            self._watch.check_file()
        except DatabaseReplaced:
            self._idle_at_fork = False
        if not self._idle_at_fork or not self._watch.let_go():
            raise StorageError(
                f"{self.target} was in use when this process was forked, and can't be opened safely in it: "
                "open databases after the fork, or start processes by spawn"
            )
        for session in self._idle_readers:
            session.connection.close()
        self._writer.close()
        _inherited.remove(self)


class WriteTransaction:
    """BEGIN IMMEDIATE to COMMIT, or ROLLBACK on an exception."""

    __slots__ = ("_storage", "_token")

    def __init__(self, storage: SqliteStorage) -> None:
        self._storage = storage
        self._token: Token[tuple[WriteTransaction, ...]] | None = None

    def __enter__(self) -> Session:
        session = self._storage.begin(self)
        self._token = _inside.set((*_inside.get(), self))
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
            self._storage.rollback(error)


def _open_file(path: str, busy_timeout_ms: int, synchronous: str, create: bool) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        raise StorageError(f"Brant needs SQLite 3.38 or later; this Python has {sqlite3.sqlite_version}")
    file = _file_of(path)
    is_new = not os.path.exists(file)
    if is_new and not create:
        raise StorageError(f"there is no database at {path}")
    for inherited in _inherited.copy():
        if _same_file(file, inherited.target):
            inherited.let_go()
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


def _same_file(path: str, other: str) -> bool:
    try:
        return path == other or os.path.samefile(path, other)
    except OSError:
        return False


def _file_of(path: str) -> str:
    if not path.startswith("file:"):
        return path
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(path).path)


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


def _disown_all() -> None:
    for storage in list(_open_storages):
        storage.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
