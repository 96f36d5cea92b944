"""What planning asks of a database on a Postgres server. Short reads on a connection of their own."""

from __future__ import annotations

import atexit
import functools
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import brant
from brant.config import without_password
from brant.errors import BrantError
from brant.pipeline.errors import PipelineError, without_secrets
from brant.pipeline.shelf import NoTables, Shelf
from brant.pipeline.tables import Table, parameters, statement

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[Any]

DEFAULT_SCHEMA = "brant"
_OWN = "brant_"
_OWN_SCHEMA = re.compile(r"\bbrant\.(?=\w)")
_PARAMETER = re.compile(r":(\w+)")
_STATEMENT_TIMEOUT_MS = 600_000
_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": 10,
    "application_name": "brant pipeline",
    "client_encoding": "UTF8",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_WRITERS_S = 1.0
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True)
class Address:
    """What `postgresql://user:password@host/database?brant_schema=...` says."""

    url: str
    """For the driver: without what is Brant's own."""
    schema: str
    prepares: bool

    def __str__(self) -> str:
        return without_secrets(without_password(self.url))


@functools.cache
def parsed(address: str) -> Address:
    try:
        scheme, place, path, query, _ = urlsplit(address)
    except ValueError:
        raise _unreadable() from None
    pairs = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in pairs if name.startswith(_OWN)}
    rest = urlencode([pair for pair in pairs if pair[0] not in own], quote_via=quote)
    return Address(
        f"{scheme}://{place}{path}" + (f"?{rest}" if rest else ""),
        own.get("brant_schema") or DEFAULT_SCHEMA,
        own.get("brant_prepare", "1").lower() not in ("0", "false", "off", "no"),
    )


def tenant_of(address: str) -> str:
    """The name of the source: that of the database, as a file's is that of the file."""
    found = parsed(address)
    given = _given(found)
    name = (
        given.get("dbname") or os.environ.get("PGDATABASE") or given.get("service") or given.get("user") or "postgres"
    )
    return str(name) if found.schema == DEFAULT_SCHEMA else f"{name}.{found.schema}"


def with_timeout(address: str, seconds: int) -> str:
    """The address for work whose statements may take so long, unless it says itself how long they may."""
    if "brant_timeout=" in address:
        return address
    return f"{address}{'&' if '?' in address else '?'}brant_timeout={seconds}"


def _unreadable() -> PipelineError:
    return PipelineError("the address of the database can't be read; write postgresql://user@host:port/database")


def _given(address: Address) -> dict[str, Any]:
    psycopg = driver()
    try:
        return dict(psycopg.conninfo.conninfo_to_dict(address.url))
    except psycopg.Error:  # its text repeats the address
        raise _unreadable() from None


def driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise PipelineError("a database on a server needs psycopg: pip install 'brant[postgres]'") from None
    return psycopg


def connect(address: str) -> Connection:
    """A connection for reading; why there is none is said in one sentence, without the password."""
    psycopg = driver()
    found = parsed(address)
    given = _given(found)
    settings = {name: value for name, value in _DEFAULTS.items() if name not in given}
    threshold = 2 if found.prepares else None
    try:
        connection: Connection = psycopg.connect(found.url, autocommit=True, prepare_threshold=threshold, **settings)
    except psycopg.Error:
        raise PipelineError(_why_not(address)) from None
    from psycopg.types.numeric import Int8Dumper

    # One plan for each statement, whatever the size of its numbers.
    connection.adapters.register_dumper(int, Int8Dumper)
    if found.prepares:  # else there is a pooler, which would hand the setting on to others
        with in_one_line(address):
            run(connection, address, "set_up", {"statement_timeout": str(_STATEMENT_TIMEOUT_MS)})
    return connection


def _why_not(address: str) -> str:
    """As everybody else is told who tries to open it."""
    try:
        brant.open(address, create=False).close()
    except BrantError as error:
        return without_secrets(str(error))
    return f"unable to open {parsed(address)}: the connection failed, and the next one did not; try again"


@contextmanager
def in_one_line(address: str) -> Iterator[None]:
    """What the server says as one sentence."""
    psycopg = driver()
    try:
        yield
    except psycopg.Error as error:
        shown = parsed(address)
        told = error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__
        missing = (
            psycopg.errors.UndefinedTable,
            psycopg.errors.InvalidSchemaName,
            psycopg.errors.UndefinedFunction,
        )
        if isinstance(error, missing):
            if "knocker_" in told or "_brant_inbox_" in told:
                raise NoTables(f"{shown} has no inbox: nothing was received there") from None
            raise NoTables(
                f"{shown} has no Brant tables in the schema {shown.schema!r}; make them with 'brant init'"
            ) from None
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            raise PipelineError(
                f"{shown} cannot be read: {told}; the user needs USAGE on the schema {shown.schema!r} and SELECT on "
                "what is in it"
            ) from None
        raise PipelineError(f"{shown} cannot be read: {without_secrets(told)}") from None


def in_schema(sql: str, schema: str) -> str:
    """The statements are written for the schema `brant`."""
    quoted = '"' + schema.replace('"', '""') + '".'
    return _OWN_SCHEMA.sub(lambda _: quoted, sql)


@functools.cache
def numbered(name: str, schema: str) -> tuple[str, tuple[str, ...]]:
    """A statement as the server takes it, and the names of its parameters in their order."""
    names = parameters(name, "postgres")
    sql = _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", statement(name, "postgres"))
    return in_schema(sql, schema), names


def run(connection: Connection, address: str, name: str, params: dict[str, object]) -> list[tuple[Any, ...]]:
    sql, names = numbered(name, parsed(address).schema)
    cursor = driver().RawCursor(connection)
    cursor.execute(sql, [params[each] for each in names])
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


class PostgresShelf(Shelf):
    """One database on a server."""

    has_gaps = True

    def __init__(self, address: str, table: Table, *, keep: bool = False) -> None:
        """With `keep` the connection is kept for the next shelf: a stream plans several times a second."""
        super().__init__(table)
        self._address = address
        self._keep = keep
        kept: Connection | None = _kept.pop((os.getpid(), address), None) if keep else None
        self._connection = kept or connect(address)

    def close(self) -> None:
        if self._keep and not self._connection.closed:
            place = os.getpid(), self._address
            if _kept.setdefault(place, self._connection) is self._connection:
                return
        self._connection.close()

    def ask(self, statement_name: str, /, **params: object) -> list[tuple[Any, ...]]:
        psycopg = driver()
        with in_one_line(self._address):
            try:
                return run(self._connection, self._address, statement_name, params)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
            # It was lost, perhaps while nobody used it. A question can be asked again.
            self._connection = connect(self._address)
            return run(self._connection, self._address, statement_name, params)

    def head(self, names: Sequence[str] | None = None) -> int:
        """Transactions commit in another order than they were given their numbers in."""
        if self._table.optional:
            return self._settled()
        # First what was given, then what is announced, then the rows, by statements of their own: see the schema.
        given = self._given()
        if names is not None:
            return min((self.of_store("horizon_of_one", name=name)[0][0] for name in names), default=given)
        behind: int | None = self.of_store("announced", given=given)[0][0]
        return given - (behind or 0)

    def end(self, names: Sequence[str] | None = None) -> int:
        return self.bounds()[1] if self._table.optional else self.head(names)

    def _given(self) -> int:
        given, is_replica = self.of_store("given")[0]
        shown = parsed(self._address)
        if is_replica:
            raise PipelineError(
                f"{shown} is a replica, which does not tell what is still to be committed: events would be skipped; "
                "give the address of the primary"
            )
        if given is None:
            raise PipelineError(
                f"{shown} cannot be read: the user needs SELECT on the sequences in the schema {shown.schema!r} too"
            )
        return int(given)

    def _settled(self) -> int:
        """Up to where the numbers of a table are settled in which nobody announces them.

        All that was given at a moment is settled when those who were writing to the table then have ended. Which may
        take longer than this look: the next one goes on with what this one saw.
        """
        looks = _looks.setdefault((self._address, self._table.stored_in), _Looks())
        given, writers = self._given(), self._writers()
        if looks.writers and not looks.writers & writers:
            looks.settle()
        if not looks.writers:
            looks.given, looks.writers = given, writers
        until = time.monotonic() + _WRITERS_S
        while looks.writers & writers and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN_S)
            writers = self._writers()
        if not looks.writers & writers:
            looks.settle()
        return looks.settled

    def _writers(self) -> set[str]:
        return {writer for (writer,) in self.of_store("writers")}


class _Looks:
    """What was given at some moment, who was writing then, and what is settled since an earlier one."""

    def __init__(self) -> None:
        self.given = 0
        self.writers: set[str] = set()
        self.settled = 0

    def settle(self) -> None:
        self.settled, self.writers = self.given, set()


_looks: dict[tuple[str, str], _Looks] = {}
_kept: dict[tuple[int, str], Any] = {}  # by process, since a fork copies it


def forget_kept(address: str) -> None:
    """Close the connection that was kept, if there is one."""
    kept = _kept.pop((os.getpid(), address), None)
    if kept is not None:
        kept.close()


@atexit.register
def _forget_all() -> None:
    for process, address in list(_kept):
        if process == os.getpid():
            forget_kept(address)
