"""Rows of a database on a Postgres server, as Arrow tables."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brant.pipeline.postgres import connect, driver, in_one_line, numbered, parsed

if TYPE_CHECKING:
    from psycopg.adapt import AdaptersMap

_WHOLE = frozenset({20, 21, 23})  # the server's numbers of its types bigint, smallint and integer
_ROWS_AT_ONCE = 2000
_MICROS = 1_000_000
_LATEST_S = 9e12  # what comes later has no place in 64 bits of microseconds
_JOB_EVENTS = "jobs_page"
_TEXTS = ("event", "queue", "worker", "error", "task")
_NUMBERS = ("job_id", "attempt")
_JOB_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("event", pa.binary()),
        ("queue", pa.binary()),
        ("job_id", pa.int64()),
        ("attempt", pa.int64()),
        ("at", pa.int64()),
        ("worker", pa.binary()),
        ("error", pa.binary()),
        ("task", pa.binary()),
    ]
)


@functools.cache
def _adapters() -> AdaptersMap:
    """Texts stay bytes: Arrow takes them as they are."""
    from psycopg.adapt import AdaptersMap
    from psycopg.types.numeric import Int8Dumper
    from psycopg.types.string import ByteaBinaryLoader

    adapters = AdaptersMap(driver().adapters)
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_loader("text", ByteaBinaryLoader)
    return adapters


class PostgresEngine:
    """Reads by the driver's binary protocol."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._schema = parsed(address).schema
        self._connection = connect(address)
        self._cursor = driver().RawCursor(self._connection)
        self._cursor._adapters = _adapters()

    def fetch(self, name: str, params: Mapping[str, object]) -> pa.Table:
        sql, names = numbered(name, self._schema)
        with in_one_line(self._address):
            self._cursor.execute(sql, [params[each] for each in names], binary=True)
            rows = self._cursor.fetchall()
        schema = pa.schema(
            [
                (column.name, pa.int64() if column.type_code in _WHOLE else pa.binary())
                for column in self._cursor.description
            ]
        )
        page = pa.Table.from_arrays(_arrays(rows, schema), schema=schema)
        return _job_events(page) if name.startswith(_JOB_EVENTS) else page

    def each(self, name: str, params: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """The rows of one statement, all as of one moment."""
        sql, names = numbered(name, self._schema)
        cursor = driver().RawServerCursor(self._connection, "brant_rows")
        cursor._adapters = _adapters()
        cursor.itersize = _ROWS_AT_ONCE
        with in_one_line(self._address), self._connection.transaction(), cursor:
            cursor.execute(sql, [params[each] for each in names], binary=True)
            yield from cursor

    def close(self) -> None:
        self._connection.close()


def _arrays(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]


def _job_events(page: pa.Table) -> pa.Table:
    """Lifecycle events by their facts; one that is none is a row without any."""
    columns: dict[str, list[Any]] = {name: [] for name in _JOB_SCHEMA.names}
    offsets, payloads, moments = (page.column(place).to_pylist() for place in range(3))
    for payload, created_at in zip(payloads, moments, strict=True):
        facts = _facts(payload)
        for name in _TEXTS:
            columns[name].append(_text(facts.get(name)))
        for name in _NUMBERS:
            columns[name].append(_number(facts.get(name)))
        columns["at"].append(_moment(facts.get("at"), created_at))
    columns["offset"] = offsets
    return pa.table(columns, schema=_JOB_SCHEMA)


def _facts(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else value.encode("utf-8", "replace")
    return json.dumps(value).encode()


def _number(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if is_number and isinstance(value, int) else None


def _moment(value: object, otherwise: int | None) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LATEST_S:
        return int(value * _MICROS)
    return otherwise
