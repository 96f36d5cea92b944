"""Transactions on a server: side by side, and told to those who wait when they commit."""

from __future__ import annotations

import select
import time
from abc import abstractmethod
from contextvars import Token
from types import TracebackType
from typing import Any

import psycopg

from brant.errors import StorageError, TransactionError
from brant.storage import inside
from brant.storage.base import Storage
from brant.storage.postgres.connecting import promptly
from brant.storage.postgres.connection import PostgresSession, ended, lost_at_commit
from brant.storage.postgres.errors import REFUSALS, is_lost, translated
from brant.storage.postgres.pool import Pool, close
from brant.storage.postgres.wake import Wake
from brant.storage.session import Session

_TIDY_EVERY = 20
_HAS_POLL = hasattr(select, "poll")  # it takes descriptors of any number


class TransactionalStorage(Storage):
    """The part of a storage that writes."""

    _writers: Pool
    _wake: Wake
    _is_inherited = False
    _used_keys = 0

    @abstractmethod
    def _ring(self, connection: psycopg.Connection[Any]) -> None:
        """Tell the others, at the commit."""

    @abstractmethod
    def _check(self, session: PostgresSession) -> None:
        """Raise unless the connection works."""

    def transaction(self, *, wait: bool = True) -> PostgresTransaction:  # noqa: ARG002 - they go side by side
        return PostgresTransaction(self)

    def alone(self) -> PostgresTransaction:
        return PostgresTransaction(self, is_alone=True)

    def in_transaction(self) -> bool:
        return self.current() is not None

    def current(self) -> PostgresSession | None:
        # A task started inside a block inherits its context and may outlive it: only a block that is open counts.
        for block in reversed(inside.blocks()):
            if isinstance(block, PostgresTransaction) and block.storage is self and block.session is not None:
                return block.session
        return None

    def require_transaction(self) -> None:
        self.require_open()
        session = self.current()
        if session is None:
            raise ended()
        session.require_sound()

    def begin(self, *, is_alone: bool = False) -> PostgresSession:
        self.require_open()
        if self.in_transaction():
            raise TransactionError(
                "nested db.transaction(): this thread or task has one open already; pass it on as tx= instead"
            )
        try:
            return self._begun(is_alone)
        except psycopg.Error as error:
            if not is_lost(error):
                raise translated(error) from error
        # Nothing was done on it yet, so that another connection is as good.
        self._writers.forget_idle()
        try:
            return self._begun(is_alone)
        except psycopg.Error as error:
            raise translated(error) from error

    def _begun(self, is_alone: bool) -> PostgresSession:
        session = self._writers.borrow()
        session.is_alone = is_alone
        try:
            if not is_alone:
                with promptly(session.connection):
                    session.command("begin")
            elif _has_news(session.connection):
                self._check(session)  # most likely of its end
        except BaseException:
            close(session.connection)
            self._writers.give_back(session)
            raise
        session.rings.clear()
        return session

    def commit(self, session: PostgresSession) -> None:
        if self._is_inherited:
            self.require_open()
        rings = session.rings
        rings_now, tidies = False, rings.used_keys and self._is_time_to_tidy()
        if session.is_alone:
            self._done_alone(session)
            return
        try:
            session.require_sound()
            rings_now = bool(rings.keys) and self._wake.rings_now(rings.keys)
            if rings_now:
                rings.rang_at = time.monotonic()
                self._ring(session.connection)
            self._commit(session)
            if tidies:
                self._tidy(session)
        except BaseException as error:
            close(session.connection)  # with what is not committed
            if isinstance(error, psycopg.Error):
                raise translated(error) from error
            raise
        finally:
            self._writers.give_back(session)
        if rings.wrote:
            owes_ring = not rings_now and (rings.is_lazy or bool(rings.keys))
            self._wake.committed(owes_ring=owes_ring, rang_at=rings.rang_at)

    def _done_alone(self, session: PostgresSession) -> None:
        rings = session.rings
        session.is_alone = False
        self._writers.give_back(session)
        if rings.wrote:
            owes_ring = rings.rang_at is None and (rings.is_lazy or bool(rings.keys))
            self._wake.committed(owes_ring=owes_ring, rang_at=rings.rang_at)

    def _commit(self, session: PostgresSession) -> None:
        try:
            session.command("commit")
        except psycopg.Error as error:
            if not is_lost(error) or not session.rings.wrote:
                raise
            raise lost_at_commit(error) from error

    def _is_time_to_tidy(self) -> bool:
        self._used_keys += 1
        return self._used_keys % _TIDY_EVERY == 0

    def _tidy(self, session: PostgresSession) -> None:
        """Not within the transaction of a caller's, which may last: what it locks others may want."""
        try:
            session.command("begin")
            session.drop_lapsed_keys()
            session.command("commit")
        except (*REFUSALS, StorageError):
            close(session.connection)  # the caller's work is committed, and this is done another time

    def rollback(self, session: PostgresSession) -> None:
        session.is_alone = False
        try:
            # In a child after fork the transaction is the parent's.
            if not self._is_inherited and session.in_transaction():
                session.command("rollback")
        except REFUSALS:
            close(session.connection)
        finally:
            if not self._is_inherited:
                self._writers.give_back(session)

    def user_session(self) -> Session:
        session = self.current()
        if session is None:
            raise ended()
        return session


def _has_news(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has said something unasked, which is how it tells that it has ended the connection."""
    try:
        if _HAS_POLL:
            poll = select.poll()
            poll.register(connection.fileno(), select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select((connection,), (), (), 0)[0])
    except (OSError, ValueError, psycopg.Error):
        return True


class PostgresTransaction:
    """BEGIN to COMMIT, or ROLLBACK on an exception."""

    __slots__ = ("_is_alone", "_token", "session", "storage")

    def __init__(self, storage: TransactionalStorage, *, is_alone: bool = False) -> None:
        self.storage = storage
        self._is_alone = is_alone  # begins only if its verb can't be done in one statement
        self.session: PostgresSession | None = None
        self._token: Token[tuple[Any, ...]] | None = None

    def __enter__(self) -> Session:
        self.session = self.storage.begin(is_alone=self._is_alone)
        self._token = inside.enter(self)
        return self.session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self.session = self.session, None
        if self._token is not None:
            inside.leave(self._token)
        if session is None:
            return
        if kind is None:
            self.storage.commit(session)
        else:
            self.storage.rollback(session)
