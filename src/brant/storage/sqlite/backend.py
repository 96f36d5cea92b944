"""The SQLite backend: one file in WAL mode, one writer and a few readers a process."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Token
from types import TracebackType

from brant.clock import Clock
from brant.errors import (
    DatabaseBusy,
    DatabaseClosed,
    DatabaseReplaced,
    InvalidValue,
    StorageError,
    StorageFull,
    TransactionError,
)
from brant.storage import inside
from brant.storage.base import Storage
from brant.storage.session import Session
from brant.storage.sqlite.adopt import begins_by_itself, sqlite_connection
from brant.storage.sqlite.connection import SqliteSession, connect, translated
from brant.storage.sqlite.log import Log
from brant.storage.sqlite.opening import file_of, open_file, path_of, same_file
from brant.storage.sqlite.readers import Readers
from brant.storage.sqlite.schema import prepare, retire_old_layout
from brant.storage.sqlite.wake import FileWatch
from brant.storage.subscription import Subscription

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from brant.storage.health import Health

_FILE_CHECK_S = 0.5

_open_storages: weakref.WeakSet[SqliteStorage] = weakref.WeakSet()
_inherited: list[SqliteStorage] = []


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
        _let_go_of_inherited(path)
        self._writer = open_file(path, busy_timeout_ms=busy_timeout_ms, synchronous=synchronous, create=create)
        self._write_session = SqliteSession(self._writer, clock)
        try:
            self.target = path_of(self._writer)
            if not self.target:
                raise InvalidValue(f"{path!r} names no file; ':memory:' gives a private temporary one")
            prepare(self._write_session)
        except BaseException:
            self._writer.close()
            raise
        self._log = Log(self._writer, self.target + "-wal", busy_timeout_ms)
        self._functions_registered = False
        self._slot = threading.Lock()
        self._slot_owner: int | None = None
        self._slot_block: WriteTransaction | None = None
        self._changes_before = 0
        self._idle_at_fork = False
        self._readers = Readers(self._connect_reader, clock, max_readers)
        self._watch = FileWatch(self.target, self._connect_reader, mode=watcher, poll_s=poll_s)
        self._next_file_check = 0.0
        _open_storages.add(self)

    # Writing

    def transaction(self, *, wait: bool = True) -> WriteTransaction:
        return WriteTransaction(self, wait=wait)

    def in_transaction(self) -> bool:
        # A task started inside a block inherits its context and may outlive it: only the block that is open counts.
        return self._slot_owner == threading.get_ident() or self._slot_block in inside.blocks()

    def begin(self, block: WriteTransaction, *, wait: bool = True) -> Session:
        self.require_open()
        if self.in_transaction():
            raise TransactionError(
                "nested db.transaction(): this thread or task has one open already; pass it on as tx= instead"
            )
        if not self._slot.acquire(blocking=wait):
            raise DatabaseBusy("another thread is in a transaction; try again")
        try:
            self.require_open()
            self._check_file()
            if self._log.short_of_room:
                self._log.make_room()
            if wait:
                self._writer.execute("BEGIN IMMEDIATE")
            else:
                self._begin_at_once()
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

    def _begin_at_once(self) -> None:
        self._writer.execute("PRAGMA busy_timeout = 0")
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        finally:
            self._writer.execute(f"PRAGMA busy_timeout = {self._settings['busy_timeout_ms']}")

    def commit(self) -> None:
        rows_written = self._writer.total_changes - self._changes_before
        try:
            self.require_transaction()
            self._writer.execute("COMMIT")
            self._log.committed(rows_written)
        except sqlite3.Error as error:
            self._undo()
            problem = self._explained(error)
            self._log.short_of_room |= isinstance(problem, StorageFull)
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
                self._log.short_of_room |= isinstance(cause, StorageFull)
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

    def adopt(self, connection: object) -> Session:
        self.require_open()
        self._check_file()
        found = sqlite_connection(connection)
        try:
            path = path_of(found)
        except sqlite3.Error as error:
            raise TransactionError(f"the connection passed as tx= can't be used: {translated(error)}") from error
        if not same_file(path, self.target):
            raise TransactionError(
                f"the connection passed as tx= is open on {path or 'a temporary database'}, not on {self.target}"
            )
        session = SqliteSession(found, self.clock, guarded=True)
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
            try:
                with session.savepoint():
                    retire_old_layout(session)
            except StorageError:
                pass  # left as they are; health() tells of them

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Session]:
        self.require_open()
        session = self._readers.borrow()
        try:
            yield session
        except StorageError:
            self._watch.check_file()  # what has taken the place of the file lacks the tables, or worse
            raise
        finally:
            self._readers.give_back(session)

    def snapshot(self) -> AbstractContextManager[Session]:
        self.require_open()
        return self._readers.snapshot()

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
        from brant.storage.health import Health
        from brant.storage.sqlite.health import examine

        try:
            with self.reading() as session:
                return examine(session, self.target, self._watch, self._log_is_pinned if thorough else None)
        except DatabaseReplaced as error:
            return Health((str(error),))

    def _log_is_pinned(self) -> bool:
        """Whether a reader keeps the log from being emptied; empties it otherwise."""
        if self.in_transaction():
            return False
        with self._slot:
            return not self._log.checkpoint("TRUNCATE")

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
            self.unusable = "Database is closed"
            self._watch.close(DatabaseClosed("Database is closed: its watcher has ended"))
            self._readers.close()
            self._writer.close()

    def disown(self) -> None:
        """In a child after fork: refuse everything, and close nothing for now."""
        if self.unusable is not None:
            return
        self.unusable = "this Database was opened in another process, before a fork; open it anew in this one"
        # Where a thread that the child has not got was at work, its locks are never released.
        readers_were_idle = self._readers.disown()
        self._idle_at_fork = self._slot.acquire(blocking=False) and readers_were_idle
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
        self._readers.close()
        self._writer.close()
        _inherited.remove(self)


class WriteTransaction:
    """BEGIN IMMEDIATE to COMMIT, or ROLLBACK on an exception."""

    __slots__ = ("_storage", "_token", "_wait")

    def __init__(self, storage: SqliteStorage, *, wait: bool) -> None:
        self._storage = storage
        self._wait = wait
        self._token: Token[tuple[Any, ...]] | None = None

    def __enter__(self) -> Session:
        session = self._storage.begin(self, wait=self._wait)
        self._token = inside.enter(self)
        return session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            inside.leave(self._token)
        if kind is None:
            self._storage.commit()
        else:
            self._storage.rollback(error)


def _let_go_of_inherited(path: str) -> None:
    for storage in _inherited.copy():
        if same_file(file_of(path), storage.target):
            storage.let_go()


def _disown_all() -> None:
    for storage in list(_open_storages):
        storage.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
