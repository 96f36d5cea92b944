"""Sessions that run Brant's statements on a connection to Postgres."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import FloatLoader, Int8Dumper

from brant.clock import Clock
from brant.errors import StorageError, TransactionError
from brant.storage.base import Row
from brant.storage.postgres.clock import ServerClock
from brant.storage.postgres.errors import REFUSALS, is_lost, told, translated
from brant.storage.postgres.floors import Floors
from brant.storage.postgres.rings import Rings
from brant.storage.postgres.sql import Statement, with_numbers
from brant.storage.postgres.verbs import PostgresVerbs

Connection = psycopg.Connection[Any]
_ROWS_A_FETCH = 1000
# They may go through whole tables.
_LONG = frozenset({"delete_queue", "prune_notifications", "prune_stream", "purge_dead", "sweep_results"})
_LONG_MS = 600_000
# They take back settings, too.
_FORGETTING = frozenset({"begin", "rollback", "undo_savepoint"})


class _Seconds(FloatLoader):
    """A time in whole seconds is a whole number, as out of a file."""

    def load(self, data: Any) -> Any:
        value = super().load(data)
        return int(value) if value.is_integer() else value


@functools.cache
def _adapters() -> AdaptersMap:
    """For Brant's statements. Every int is a bigint: one plan a statement, whatever the size of its numbers."""
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_loader("float8", _Seconds)
    return adapters


class _Cursor(psycopg.RawCursor[Row]):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, row_factory=tuple_row)
        self._adapters = _adapters()


class _ServerCursor(psycopg.RawServerCursor[Row]):
    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, name, row_factory=tuple_row)
        self._adapters = _adapters()
        self.itersize = _ROWS_A_FETCH


class PostgresSession(PostgresVerbs):
    """Runs Brant's statements on a connection, which is in a transaction unless it only reads.

    `reconnect` is for readers in autocommit: what they read can be read again on another connection, which it gives
    for the one that was lost. `at_end_of_part` is for connections that the caller owns: it is called when a verb is
    done.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        statements: Mapping[str, Statement],
        *,
        reconnect: Callable[[Connection], Connection] | None = None,
        at_end_of_part: Callable[[PostgresSession], None] | None = None,
        floors: Floors | None = None,
    ) -> None:
        self.clock = clock
        self.floors = floors
        self.rings = Rings()
        self._statements = statements
        self._reconnect = reconnect
        self._at_end_of_part = at_end_of_part
        self._depth = 0
        self._cursors = 0
        self._use(connection)

    def _use(self, connection: Connection) -> None:
        self.connection = connection
        self._cursor = _Cursor(connection)
        self._told_time: float | None = None

    def rows(self, name: str, params: Mapping[str, object]) -> list[Row]:
        cursor = self._execute(name, params)
        try:
            return cursor.fetchall() if cursor.description else []
        except REFUSALS as error:
            raise translated(error) from error

    def changed(self, name: str, params: Mapping[str, object]) -> int:
        return max(self._execute(name, params).rowcount, 0)

    def each(self, name: str, params: Mapping[str, object]) -> Generator[Row, None, None]:
        statement = self._statements[name]
        return self._each(statement.sql, [params[key] for key in statement.params])

    def each_of(self, sql: str) -> Generator[Row, None, None]:
        return self._each(sql, [])

    def command(self, name: str) -> None:
        """Run a statement that neither takes nor gives anything; the driver's errors are left as they are."""
        self._cursor.execute(self._statements[name].sql)
        if name in _FORGETTING:
            self._told_time = None

    def _execute(self, name: str, params: Mapping[str, object]) -> psycopg.Cursor[Row]:
        if name in _LONG and self._at_end_of_part is None and self.in_transaction():
            with self._given_time():
                return self._execute_now(name, params)
        return self._execute_now(name, params)

    def _execute_now(self, name: str, params: Mapping[str, object]) -> psycopg.Cursor[Row]:
        if self.is_alone:
            self._begin()
        statement = self._statements[name]
        values = [params[key] for key in statement.params]
        cursor = self._asked(lambda: self._cursor.execute(statement.sql, values))
        if cursor.rowcount > 0 and not (cursor.statusmessage or "").startswith("SELECT"):
            self.rings.note(name, params)
        return cursor

    def _begin(self) -> None:
        """What was to be one statement needs more."""
        self.is_alone = False
        self._part("begin")

    def rows_alone(self, name: str, params: Mapping[str, object]) -> list[Row]:
        statement = self._statements[f"{name}_alone"]
        try:
            rows = self._cursor.execute(statement.sql, [params[key] for key in statement.params]).fetchall()
        except REFUSALS as error:
            if isinstance(error, psycopg.Error) and is_lost(error):
                raise lost_at_commit(error) from error
            raise translated(error) from error
        if rows:
            self.rings.note(name, params)
        return rows

    def _asked(self, ask: Callable[[], psycopg.Cursor[Row]], *, own: bool = True) -> psycopg.Cursor[Row]:
        """The answer; where a reader's connection was lost, that on another one."""
        try:
            return ask()
        except REFUSALS as error:
            if not self._is_renewed(error):
                raise translated(error, own=own) from error
        try:
            return ask()
        except REFUSALS as error:
            raise translated(error, own=own) from error

    def _is_renewed(self, error: Exception) -> bool:
        """Whether the connection was lost, and there is another one on which a reader may ask the same again."""
        if self._reconnect is None or not isinstance(error, psycopg.Error) or not is_lost(error):
            return False
        self.connection.close()
        self._use(self._reconnect(self.connection))
        return True

    @contextmanager
    def _given_time(self) -> Iterator[None]:
        """Let the statement take as long as it needs, on the server and here."""
        connection = self.connection
        usual_s = getattr(connection, "answer_within_s", None)
        self._execute_now("give_time", {"statement_timeout": str(_LONG_MS)})
        connection.answer_within_s = _LONG_MS / 1000  # type: ignore[attr-defined]
        try:
            yield
        finally:
            connection.answer_within_s = usual_s  # type: ignore[attr-defined]

    def _each(self, sql: str, values: Sequence[object]) -> Generator[Row, None, None]:
        try:
            if self.in_transaction():
                self._cursors += 1
                with _ServerCursor(self.connection, f"brant_{self._cursors}") as cursor:
                    cursor.execute(sql, values)
                    yield from cursor
            else:
                yield from _Cursor(self.connection).stream(sql, values, size=_ROWS_A_FETCH)
        except REFUSALS as error:
            raise translated(error) from error

    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    def require_sound(self) -> None:
        """Raise unless the transaction can go on: the server would take a COMMIT of a failed one for a ROLLBACK."""
        status = self.connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise TransactionError(
                "a statement of this transaction has failed, and Postgres undoes the whole of it: leave the block"
            )
        if status != TransactionStatus.INTRANS:
            raise ended()

    # Statements of the user's

    def execute(self, sql: str, params: Sequence[object] = ()) -> None:
        # A statement has run by the time it is known to return rows: what RETURNING wrote must be undone.
        with self.savepoint() if "returning" in sql.lower() else nullcontext():
            cursor = self._run(sql, params)
            if cursor.description is not None:
                raise StorageError("execute() is for statements that return no rows; use query() for this one")

    def query(self, sql: str, params: Sequence[object] = ()) -> list[dict[str, Any]]:
        cursor = self._run(sql, params)
        if cursor.description is None:
            return []
        columns = [column.name for column in cursor.description]
        try:
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        except REFUSALS as error:
            raise translated(error, own=False) from error

    def _run(self, sql: str, params: Sequence[object]) -> psycopg.Cursor[Row]:
        statement = with_numbers(sql)
        if not isinstance(self.clock, ServerClock):
            self._tell_time()
        values = list(params)
        cursor = self._asked(
            lambda: psycopg.RawCursor(self.connection, row_factory=tuple_row).execute(statement, values), own=False
        )
        if not (cursor.statusmessage or "").startswith(("SELECT", "SHOW", "SET")):
            self.rings.note("user", {})
        if cursor.statusmessage == "ROLLBACK":
            self._told_time = None
        return cursor

    def _tell_time(self) -> None:
        """Brant's functions in the user's SQL take the server's time, unless they are told another."""
        now = self.now()
        if now != self._told_time:
            self._execute_now("tell_time", {"now": str(now)})
            self._told_time = now

    # Parts of a transaction

    @contextmanager
    def savepoint(self) -> Iterator[Self]:
        # On a connection of the caller's in autocommit mode, outside of a transaction, the part is one by itself.
        if self.is_alone:
            self._begin()
        is_all = self.connection.autocommit and not self.in_transaction()
        self._part("begin" if is_all else "open_savepoint")
        self._depth += 1
        try:
            yield self
            if self._depth == 1 and self._at_end_of_part is not None:
                self._at_end_of_part(self)
        except BaseException:
            self._depth -= 1
            if self.in_transaction():
                self._part("rollback" if is_all else "undo_savepoint")
                if not is_all:
                    self._part("release_savepoint")
            raise
        self._depth -= 1
        self._part("commit" if is_all else "release_savepoint")

    def _part(self, name: str) -> None:
        try:
            self.command(name)
        except REFUSALS as error:
            raise translated(error) from error


def lost_at_commit(error: Exception) -> StorageError:
    return StorageError(
        f"the connection was lost during the commit ({told(error)}): "
        "look whether the work is done before you do it again"
    )


def ended() -> TransactionError:
    return TransactionError(
        "the transaction was ended inside the block (by a COMMIT, a ROLLBACK or a lost connection): "
        "nothing more can be done in it"
    )
