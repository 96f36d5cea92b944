"""The Postgres backend: a server, connections to it, and transactions side by side."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg.sql

from brant.clock import Clock
from brant.errors import DatabaseClosed, StorageError, TransactionError
from brant.storage.postgres.address import Address
from brant.storage.postgres.adopt import psycopg_connection
from brant.storage.postgres.clock import ServerClock
from brant.storage.postgres.connecting import BoundedConnection, Connector, run
from brant.storage.postgres.connection import PostgresSession
from brant.storage.postgres.errors import REFUSALS, translated
from brant.storage.postgres.floors import Floors
from brant.storage.postgres.pool import Losses, Pool, close
from brant.storage.postgres.rings import Bell
from brant.storage.postgres.schema import prepare
from brant.storage.postgres.transactions import TransactionalStorage
from brant.storage.postgres.wake import Wake
from brant.storage.session import Session
from brant.storage.subscription import Subscription

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.storage.health import Health

_open_storages: weakref.WeakSet[PostgresStorage] = weakref.WeakSet()
_inherited: list[PostgresStorage] = []


class PostgresStorage(TransactionalStorage):
    """A database on a server. Without a clock of the caller's, time is the server's."""

    def __init__(
        self,
        address: str,
        *,
        clock: Clock | None = None,
        schema: str | None = None,
        max_connections: int = 8,
        busy_timeout_ms: int = 5000,
        notify: bool = True,
        poll_s: float | None = None,
        create: bool = True,
        synchronous: str = "NORMAL",
    ) -> None:
        self.address = Address(address, schema=schema)
        self.target = str(self.address)
        self.schema = self.address.schema
        server_clock = ServerClock() if clock is None else None
        self.clock: Clock = server_clock or clock or Clock()
        self.unusable: str | None = None
        self.connector = Connector(self.address, busy_timeout_ms / 1000, server_clock, synchronous)
        self._statements = self.connector.statements
        self._known: weakref.WeakSet[psycopg.Connection[object]] = weakref.WeakSet()
        self._identity: list[object] = []
        self._floors = Floors()
        self._is_prepared = False
        patience_s = max(busy_timeout_ms / 1000, 0.001)
        self._losses = Losses()
        checks = (self._check, lambda: server_clock is not None and server_clock.is_stale)
        self._writers = Pool(self._connect_writer, *checks, max_connections, patience_s, self._losses)
        self._readers = Pool(self._connect_reader, *checks, max_connections, patience_s, self._losses)
        listens = notify and self.address.notify
        self._channel = {"channel": f"brant:{self.address.schema}"}
        self._wake = Wake(
            self._connect_listener if listens else self.connector.connect,
            self._ring,
            None if listens else self._change_mark,
            poll_s,
        )
        self._bell = Bell(self._wake.rings_now, self._wake.unrung, {**self._channel, "origin": self._wake.origin})
        self._prepare(create)
        _open_storages.add(self)

    def _prepare(self, create: bool) -> None:
        session = self._writers.borrow()
        try:
            connection, schema = session.connection, self.address.schema
            if not create and not run(connection, self._statements["schema_exists"], {"schema": schema})[0][0]:
                raise StorageError(f"there is no database at {self.target}: it has no schema {schema!r}")
            prepare(connection, schema)
            self._is_prepared = True
        except BaseException:
            close(session.connection)
            raise
        finally:
            self._writers.give_back(session)

    # Connections

    def _connect_writer(self) -> PostgresSession:
        connect = self.connector.reconnect if self._is_prepared else self.connector.connect
        session = PostgresSession(connect(), self.clock, self._statements, floors=self._floors)
        session.bell = self._bell
        return session

    def _connect_reader(self) -> PostgresSession:
        return PostgresSession(
            self._read_only_connection(),
            self.clock,
            self._statements,
            reconnect=self._reconnect_reader,
            floors=self._floors,
        )

    def _reconnect_reader(self, lost: psycopg.Connection[Any]) -> BoundedConnection:
        self._losses.note(lost)
        return self._read_only_connection()

    def _read_only_connection(self) -> BoundedConnection:
        return self.connector.reconnect(read_only=True)

    def _connect_listener(self) -> BoundedConnection:
        connection = self.connector.connect()
        connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(self._channel["channel"])))
        return connection

    def _check(self, session: PostgresSession) -> None:
        self.connector.check(session.connection)

    def _ring(self, connection: psycopg.Connection[Any]) -> None:
        run(connection, self._statements["ring"], self._channel | {"origin": self._wake.origin})

    def _change_mark(self, connection: BoundedConnection) -> str:
        return str(run(connection, self._statements["change_mark"], {})[0][0])

    # The caller's own connections

    def adopt(self, connection: object) -> Session:
        self.require_open()
        found = psycopg_connection(connection)
        if found not in self._known:
            self._require_same_database(found)
            self._known.add(found)
        return PostgresSession(found, self.clock, self._statements, at_end_of_part=self._ring_at_commit)

    def _require_same_database(self, connection: psycopg.Connection[object]) -> None:
        which = self._statements["which_database"]
        try:
            if not self._identity:
                with self.reading() as session:
                    self._identity = list(session.rows("which_database", {}))
            theirs = run(connection, which, {})
        except REFUSALS as error:
            raise TransactionError(f"the connection passed as tx= can't be used: {translated(error)}") from error
        if theirs != self._identity:
            raise TransactionError(
                f"the connection passed as tx= is open on the database {connection.info.dbname!r} of "
                f"{connection.info.host}, not on {self.target}"
            )

    def _ring_at_commit(self, session: PostgresSession) -> None:
        """Within the caller's transaction: everybody is told when it commits, this process too."""
        if session.rings.wrote:
            run(session.connection, self._statements["ring"], self._channel | {"origin": ""})
            session.rings.clear()

    def retire_old_layout(self) -> None:
        """There are no earlier systems on a server."""

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Session]:
        self.require_open()
        session = self._readers.borrow()
        try:
            yield session
        finally:
            if not self._is_inherited:
                self._readers.give_back(session)

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        self.require_open()
        # A connection of its own: it may be kept for long, while the others are needed.
        connection = self.connector.connect(read_only=True, patient=True)
        try:
            session = PostgresSession(connection, self.clock, self._statements)
            session.command("begin_snapshot")
            yield session
        finally:
            close(connection)

    # Life

    def subscribe(self) -> Subscription:
        self.require_open()
        return self._wake.subscribe()

    def wake(self) -> None:
        self._wake.subscribers.ring_all()

    def require_open(self) -> None:
        if self.unusable is not None:
            raise DatabaseClosed(self.unusable)

    def health(self, *, thorough: bool = False) -> Health:
        from brant.storage.postgres.health import examine

        return examine(self, self._wake, thorough=thorough)

    def compact(self) -> None:
        from brant.storage.postgres.upkeep import compact

        self.require_open()
        if self.in_transaction():
            raise TransactionError("compacting inside a transaction: leave its block first")
        compact(self.connector)

    def backup(self, destination: str) -> None:  # noqa: ARG002
        raise StorageError(
            "backup() copies a file; copy a database on a server with pg_dump, or its content with 'brant dump'"
        )

    def close(self) -> None:
        if self.unusable is not None:
            return
        if self.in_transaction():
            raise TransactionError("close() inside a transaction: leave its block first")
        self.unusable = "Database is closed"
        if self._wake.close(DatabaseClosed("Database is closed: its watcher has ended")):
            self._pay_last_ring()
        self._writers.close()
        self._readers.close()

    def _pay_last_ring(self) -> None:
        try:
            session = self._writers.borrow()
            try:
                self._ring(session.connection)
            finally:
                self._writers.give_back(session)
        except (*REFUSALS, StorageError):
            pass  # the others look by themselves before long

    def disown(self) -> None:
        """In a child after fork: refuse everything; to close what is the parent's would end its connections."""
        if self.unusable is None:
            self.unusable = "this Database was opened in another process, before a fork; open it anew in this one"
            self._is_inherited = True
            self._wake.disown()
            _inherited.append(self)


def _disown_all() -> None:
    for storage in list(_open_storages):
        storage.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
