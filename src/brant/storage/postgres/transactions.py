"""Transactions on a server: side by side, and told to those who wait when they commit."""

from __future__ import annotations

from abc import abstractmethod
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

import psycopg

from brant.errors import StorageError, TransactionError
from brant.storage.base import Storage
from brant.storage.postgres.connection import PostgresSession, ended
from brant.storage.postgres.errors import REFUSALS, is_lost, translated
from brant.storage.postgres.pool import Pool, close
from brant.storage.postgres.wake import Wake
from brant.storage.session import Session

_TIDY_EVERY = 20

_inside: ContextVar[tuple[PostgresTransaction, ...]] = ContextVar("brant_postgres_transactions", default=())


class TransactionalStorage(Storage):
    """The part of a storage that writes."""

    _writers: Pool
    _wake: Wake
    _is_inherited = False
    _used_keys = 0

    @abstractmethod
    def _ring(self, connection: psycopg.Connection[Any]) -> None:
        """Tell the others, at the commit."""

    def transaction(self) -> PostgresTransaction:
        return PostgresTransaction(self)

    def in_transaction(self) -> bool:
        return self.current() is not None

    def current(self) -> PostgresSession | None:
        # A task started inside a block inherits its context and may outlive it: only a block that is open counts.
        for block in reversed(_inside.get()):
            if block.storage is self and block.session is not None:
                return block.session
        return None

    def require_transaction(self) -> None:
        self.require_open()
        session = self.current()
        if session is None:
            raise ended()
        session.require_sound()

    def begin(self) -> PostgresSession:
        self.require_open()
        if self.in_transaction():
            raise TransactionError(
                "nested db.transaction(): this thread or task has one open already; pass it on as tx= instead"
            )
        try:
            return self._begun()
        except psycopg.Error as error:
            if not is_lost(error):
                raise translated(error) from error
        # Nothing was done on it yet, so that another connection is as good.
        self._writers.forget_idle()
        try:
            return self._begun()
        except psycopg.Error as error:
            raise translated(error) from error

    def _begun(self) -> PostgresSession:
        session = self._writers.borrow()
        try:
            session.command("begin")
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
        try:
            session.require_sound()
            rings_now = bool(rings.keys) and self._wake.rings_now(rings.keys)
            if rings_now:
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
            self._wake.committed(owes_ring=not rings_now and (rings.is_lazy or bool(rings.keys)))

    def _commit(self, session: PostgresSession) -> None:
        try:
            session.command("commit")
        except psycopg.Error as error:
            if not is_lost(error) or not session.rings.wrote:
                raise
            raise StorageError(
                "the connection was lost during the commit: look whether the work is done before you do it again"
            ) from error

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


class PostgresTransaction:
    """BEGIN to COMMIT, or ROLLBACK on an exception."""

    __slots__ = ("_token", "session", "storage")

    def __init__(self, storage: TransactionalStorage) -> None:
        self.storage = storage
        self.session: PostgresSession | None = None
        self._token: Token[tuple[PostgresTransaction, ...]] | None = None

    def __enter__(self) -> Session:
        self.session = self.storage.begin()
        self._token = _inside.set((*_inside.get(), self))
        return self.session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self.session = self.session, None
        if self._token is not None:
            try:
                _inside.reset(self._token)
            except ValueError:
                pass  # entered in another context (an async fixture): that one ends with its task
        if session is None:
            return
        if kind is None:
            self.storage.commit(session)
        else:
            self.storage.rollback(session)
