"""Connections with Brant's settings: bounded in time, and with an error that says what to do."""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from brant.errors import BrantError, DatabaseBusy, StorageError
from brant.storage.postgres.address import Address
from brant.storage.postgres.clock import ServerClock
from brant.storage.postgres.errors import told
from brant.storage.postgres.sql import Statement, statements_of

R = TypeVar("R")

MINIMUM_VERSION = 140_000
_GRACE_S = 2.0  # the server ends a statement by itself: only if it does not answer at all is it given up
_CONNECT_S = 5
PROMPT_S = 4.0  # for what any server that is there does at once
_WAIT_S = 0.1
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_IDLE_IN_TRANSACTION_MS = 600_000


class BoundedConnection(psycopg.Connection[Any]):
    """One that is given up when the server does not answer in time: a network may swallow everything in silence."""

    answer_within_s: float | None = None
    was_given_up = False

    def wait(self, gen: Generator[Any, Any, R], interval: float = _WAIT_S, timeout: float | None = None) -> R:
        try:
            return super().wait(gen, interval, self.answer_within_s if timeout is None else timeout)
        except errors._WaitTimeout:
            if timeout is not None:
                raise
            self.was_given_up = True
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server did not answer within {self.answer_within_s:g} s") from None


@contextmanager
def promptly(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """For a statement that takes no time: so a connection that was lost in silence is found out sooner."""
    usual_s = getattr(connection, "answer_within_s", None)
    if usual_s is None:
        yield
        return
    connection.answer_within_s = min(usual_s, PROMPT_S)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        connection.answer_within_s = usual_s  # type: ignore[attr-defined]


def run(connection: psycopg.Connection[Any], statement: Statement, params: Mapping[str, object]) -> list[Any]:
    """Run one of Brant's statements outside of a session; the driver's errors are left as they are."""
    cursor = psycopg.RawCursor(connection, row_factory=tuple_row)
    cursor.execute(statement.sql, [params[name] for name in statement.params])
    return cursor.fetchall() if cursor.description else []


class Connector:
    """Makes the connections of one Database."""

    def __init__(
        self, address: Address, busy_timeout_s: float, clock: ServerClock | None, synchronous: str = "NORMAL"
    ) -> None:
        self.address = address
        self._synchronous = synchronous
        self.statements = statements_of(address.schema)
        self._busy_timeout_s = busy_timeout_s
        self._clock = clock
        self._conninfo = address.for_connection(
            connect_timeout=_CONNECT_S,
            application_name="brant",
            keepalives=1,
            keepalives_idle=10,
            keepalives_interval=3,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )

    def reconnect(self, *, read_only: bool = False) -> BoundedConnection:
        """As `connect`, to a server that was there before: one that restarts is waited for as for a lock."""
        deadline, pause_s = time.monotonic() + self._busy_timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return self.connect(read_only=read_only)
            except DatabaseBusy:
                if time.monotonic() + pause_s > deadline:
                    raise
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def connect(self, *, read_only: bool = False, patient: bool = False) -> BoundedConnection:
        """A connection in autocommit mode; a `patient` one may take as long as it needs for a statement."""
        try:
            connection = BoundedConnection.connect(
                self._conninfo, autocommit=True, prepare_threshold=5 if self.address.prepare else None
            )
        except psycopg.Error as error:
            raise unconnected(self.address, error) from None
        try:
            self._set_up(connection, read_only, patient)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise unconnected(self.address, error) from None
            raise
        return connection

    def _set_up(self, connection: BoundedConnection, read_only: bool, patient: bool) -> None:
        version = connection.info.server_version
        if version < MINIMUM_VERSION:
            raise StorageError(f"Brant needs Postgres 14 or later; {self.address.host} has {version // 10_000}")
        connection.prepared_max = 1000
        timeout_s = 0.0 if patient else self.address.timeout_s
        connection.answer_within_s = None if patient else timeout_s + _GRACE_S
        settings = {
            "statement_timeout": str(int(timeout_s * 1000)),
            "lock_timeout": str(max(int(self._busy_timeout_s * 1000), 1)),  # 0 would be for ever
            "idle_timeout": str(_IDLE_IN_TRANSACTION_MS),
            "read_only": "on" if read_only else "off",
            "synchronous": self._synchronous,
            "schema": self.address.schema,
        }
        with promptly(connection):
            run(connection, self.statements["set_up_connection"], settings)
        self.check(connection)

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """Raise unless the connection works; the server's time is measured on the way."""
        before = time.monotonic()
        with promptly(connection):
            ((now,),) = run(connection, self.statements["server_time"], {})
        if self._clock is not None:
            self._clock.measured(before, time.monotonic(), float(now))


_ON_ITS_WAY = ("starting up", "shutting down", "accepting connections", "in recovery")


def unconnected(address: Address, error: psycopg.Error) -> BrantError:
    """One sentence on why there is no connection; not all that the driver says, which may repeat the address."""
    text = told(error)
    where = f"{address}"
    state = error.sqlstate or ""
    if "password" in text or "authentication" in text or state in ("28P01", "28000"):
        return StorageError(f"unable to open {where}: the server refused the user or the password; check both")
    if ("does not exist" in text and "database" in text) or state == "3D000":
        return StorageError(f"unable to open {where}: there is no such database on the server; create it first")
    if "permission denied" in text or state == "42501":
        return StorageError(f"unable to open {where}: the user lacks the right for it: {_last_part(text)}")
    if "too many" in text or "remaining connection slots" in text or state == "53300":
        return DatabaseBusy(
            f"unable to open {where}: the server has no connection left; try again, or raise its max_connections"
        )
    if any(words in text for words in _ON_ITS_WAY) or state in ("57P03", "57P01"):
        return DatabaseBusy(f"unable to open {where}: the server is starting or stopping; try again")
    if "resolve" in text or "Name or service" in text:
        return StorageError(f"unable to open {where}: there is no host of that name; check the address")
    if "timeout" in text or "did not answer" in text:
        return DatabaseBusy(f"unable to open {where}: no answer in time; check the address and the network")
    if "refused" in text or "No such file" in text or "closed" in text or "reset" in text or "terminat" in text:
        return DatabaseBusy(f"unable to open {where}: no server answers there; check that it runs, and the address")
    return StorageError(f"unable to open {where}: {_last_part(text)}")


def _last_part(text: str) -> str:
    return text.rpartition("FATAL:")[2].strip()
