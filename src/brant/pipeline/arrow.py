"""Rows of a database as Arrow batches, bounded in rows and bytes, each page of them a short read of its own."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from brant.config import is_address
from brant.pipeline.errors import PipelineError
from brant.pipeline.extents import Extent
from brant.pipeline.sqlite import connect, in_one_line, read_only_uri
from brant.pipeline.tables import Table, parameters, statement

BATCH_BYTES = 16 * 1024 * 1024
_SPOOLED_BYTES = 64 * 1024 * 1024
_STORED = {"BIGINT": pa.int64(), "TIMESTAMP": pa.int64(), "STRING": pa.binary(), "BINARY": pa.binary()}
_MICROS = 1_000_000
_LARGEST = 2**63 / _MICROS
_HEADS_AT_ONCE = 8  # times as many rows a page, when each is but a few bytes
_GONE = bytes(bytearray(b"gone"))  # itself, not its value: retention took the row between two reads


class Pages(Protocol):
    """Runs statements that give a page."""

    def fetch(self, name: str, params: Mapping[str, object]) -> pa.Table: ...
    def close(self) -> None: ...


class Engine(Pages, Protocol):
    """Gives the rows of a whole table too, one by one, with texts as bytes."""

    def each(self, name: str, params: Mapping[str, object]) -> Iterator[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class Request:
    """What a slice is read for."""

    table: Table
    schema: pa.Schema
    tenant_column: str | None = None
    fetch_size: int = 8192
    batch_bytes: int = BATCH_BYTES
    engine: str = "auto"

    def wants(self, column: str) -> bool:
        return column in self.schema.names


def read_extent(request: Request, extent: Extent) -> Iterator[pa.RecordBatch]:
    require_reachable(extent.path)
    pages = _ranges(request, extent) if request.table.append_only else _whole(request, extent)
    for page in pages:
        yield as_batch(page, request, extent.tenant)


def require_reachable(path: str) -> None:
    """A file must be here; a server says itself that it can't be reached."""
    if not is_address(path) and not os.path.isfile(path):
        raise PipelineError(
            f"there is no database {path} on the machine of this task; on a cluster the file must be reachable from "
            "the executors or be Postgres"
        )


def as_batch(page: pa.Table, request: Request, tenant: str) -> pa.RecordBatch:
    """The stored values of a page as what Spark was promised."""
    columns = []
    for wanted in request.schema:
        if wanted.name == request.tenant_column:
            columns.append(pa.array([tenant], pa.string()).take(pa.array([0] * page.num_rows, pa.int64())))
        elif pa.types.is_string(wanted.type):
            columns.append(_text(_single(page.column(wanted.name))))
        else:
            columns.append(_single(page.column(wanted.name)).cast(wanted.type))
    return pa.RecordBatch.from_arrays(columns, schema=request.schema)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _text(stored: pa.Array) -> pa.Array:
    try:
        return stored.cast(pa.string())
    except pa.ArrowInvalid:  # a foreign program wrote bytes that are no UTF-8
        values = [None if value is None else value.decode("utf-8", "replace") for value in stored.to_pylist()]
        return pa.array(values, pa.string())


def _ranges(request: Request, extent: Extent) -> Iterator[pa.Table]:
    """Pages of an append-only table. Values too large for a page come as NULL, and are asked for one by one."""
    table = request.table
    only_heads = set(request.schema.names) <= {*table.heads, request.tenant_column}
    name = f"{table.name}_{'heads' if only_heads else 'page'}{'' if extent.name is None else '_of_one'}"
    params: dict[str, object] = {column.name: int(request.wants(column.name)) for column in table.columns}
    params |= {"name": extent.name, "names": _json(extent.only)}
    most = request.fetch_size * (_HEADS_AT_ONCE if only_heads else 1)
    after, rows = extent.after, most
    with closing(open_for_pages(extent.path, request.engine)) as engine:
        while after < extent.until:
            bounds = {"after": after, "until": extent.until, "rows": rows, "small": request.batch_bytes // rows}
            page = engine.fetch(name, params | bounds)
            if not page.num_rows:
                return
            after = page.column(0)[-1].as_py()
            is_last = page.num_rows < rows
            large = _left_out(page, request)
            rows = _fitting_rows(rows, most, page.num_rows, len(large))
            yield from _filled(page, large, request, engine)
            if is_last:
                return


def _left_out(page: pa.Table, request: Request) -> list[int]:
    column = request.table.large
    if column is None or not request.wants(column) or not page.column(column).null_count:
        return []
    found: list[int] = pc.indices_nonzero(pc.is_null(page.column(column))).to_pylist()
    return found


def _fitting_rows(rows: int, most: int, read: int, large: int) -> int:
    """Fewer rows a page when many values did not fit into theirs, more again when all did."""
    if large * 8 > read:
        return max(1, rows // 4)
    return rows if large else min(most, rows * 2)


def _filled(page: pa.Table, large: Sequence[int], request: Request, engine: Pages) -> Iterator[pa.Table]:
    """The page in pieces, each with so many of its large values as the cap allows."""
    if not large:
        yield page
        return
    begin, taken = 0, 0
    values: dict[int, bytes] = {}
    for row in large:
        value = _value(engine, request.table, page.column(0)[row].as_py())
        if values and taken + len(value) > request.batch_bytes:
            yield _with_values(page, begin, row, values, request)
            begin, taken, values = row, 0, {}
        values[row] = value
        taken += len(value)
    yield _with_values(page, begin, page.num_rows, values, request)


def _value(engine: Pages, table: Table, cursor: int) -> bytes:
    found = engine.fetch(f"{table.stored_in}_payload", {"cursor": cursor})
    return found.column(0)[0].as_py() if found.num_rows else _GONE


def _with_values(page: pa.Table, begin: int, end: int, values: Mapping[int, bytes], request: Request) -> pa.Table:
    piece = page.slice(begin, end - begin)
    at = piece.schema.get_field_index(request.table.large)
    filled = [values.get(begin + row, value) for row, value in enumerate(piece.column(at).to_pylist())]
    whole = piece.set_column(at, piece.schema.field(at), pa.array(filled, pa.binary()))
    gone = [row for row, value in enumerate(filled) if value is _GONE]
    return whole if not gone else whole.take([row for row in range(len(filled)) if row not in set(gone)])


def _whole(request: Request, extent: Extent) -> Iterator[pa.Table]:
    """A mutable table: one statement, one moment. Spooled, so that a slow consumer holds up nobody's checkpoint."""
    table = request.table
    schema = pa.schema([(column.name, _STORED[column.type]) for column in table.columns])
    with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as spool:
        with pa.ipc.new_stream(pa.PythonFile(spool, "w"), schema) as out, closing(_open(extent.path)) as engine:
            for rows in _bounded(_selected(engine, request, extent), request):
                out.write_batch(pa.RecordBatch.from_arrays(_arrays(rows, schema), schema=schema))
        spool.seek(0)
        with pa.ipc.open_stream(pa.PythonFile(spool, "r")) as stored:
            for batch in stored:
                yield pa.Table.from_batches([batch])


def _selected(engine: Engine, request: Request, extent: Extent) -> Iterator[tuple[Any, ...]]:
    kinds = [column.type if request.wants(column.name) else None for column in request.table.columns]
    for row in engine.each(f"{request.table.name}_rows", {"names": _json(extent.only)}):
        yield tuple(_stored(value, kind) for value, kind in zip(row, kinds, strict=True))


def _json(names: Sequence[str] | None) -> str | None:
    return None if names is None else json.dumps(names)


def _stored(value: Any, kind: str | None) -> Any:
    """A value of any type that SQLite holds as one that the column can hold."""
    if value is None or kind is None:
        return None
    if kind in ("STRING", "BINARY"):
        return value if isinstance(value, bytes) else str(value).encode()
    if isinstance(value, bytes) or (kind == "TIMESTAMP" and not abs(value) < _LARGEST):
        return None
    return int(value * _MICROS) if kind == "TIMESTAMP" else int(value)


def _bounded(rows: Iterator[tuple[Any, ...]], request: Request) -> Iterator[list[tuple[Any, ...]]]:
    held: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes))
        if len(held) >= request.fetch_size or size >= request.batch_bytes:
            yield held
            held, size = [], 0
    if held:
        yield held


def _arrays(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]


class SqliteEngine:
    def __init__(self, path: str) -> None:
        self._path = path
        with in_one_line(path):
            self._connection = connect(path)

    def fetch(self, name: str, params: Mapping[str, object]) -> pa.Table:
        with in_one_line(self._path):
            cursor = self._connection.execute(statement(name), params)
            rows = cursor.fetchall()
        typed = [pa.int64() if isinstance(value, int) else pa.binary() for value in rows[0]]
        schema = pa.schema([(column[0], kind) for column, kind in zip(cursor.description, typed, strict=True)])
        return pa.Table.from_arrays(_arrays(rows[1:], schema), schema=schema)

    def each(self, name: str, params: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        self._connection.text_factory = bytes
        with in_one_line(self._path):
            yield from self._connection.execute(statement(name), params)

    def close(self) -> None:
        self._connection.close()


class AdbcEngine:
    """Another SQLite library than Python's: see `open_for_pages` for when it may be used."""

    def __init__(self, path: str) -> None:
        import adbc_driver_sqlite.dbapi as adbc

        self._path = path
        self._error = adbc.Error
        with self._in_one_line():
            self._connection = adbc.connect(read_only_uri(path), autocommit=True)
            self._cursor = self._connection.cursor()
            # It has no busy timeout of its own, and would fail at the first lock.
            self._cursor.execute(statement("busy_timeout"))
            self._cursor.fetchall()

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        with in_one_line(self._path):
            try:
                yield
            except self._error as error:
                raise sqlite3.OperationalError(str(error)) from None

    def fetch(self, name: str, params: Mapping[str, object]) -> pa.Table:
        with self._in_one_line():
            rows = params.get("rows", 1)
            self._cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(int(str(rows)) + 1)})
            self._cursor.execute(statement(name), [params[each] for each in parameters(name)])
            return self._cursor.fetch_arrow_table().slice(1)

    def close(self) -> None:
        self._cursor.close()
        self._connection.close()


def _open(path: str) -> Engine:
    if is_address(path):
        from brant.pipeline.postgres_rows import PostgresEngine

        return PostgresEngine(path)
    return SqliteEngine(path)


def open_for_pages(path: str, engine: str) -> Pages:
    """Of a file, by ADBC where it is installed and safe.

    Closing one library's descriptor of a file drops the locks that the other one holds on it in this process, and
    with them commits. So ADBC is left alone where this process has the file open already.
    """
    is_fast = not is_address(path) and engine != "sqlite3" and has_adbc(engine) and not is_open_here(path)
    return AdbcEngine(path) if is_fast else _open(path)


def has_adbc(engine: str) -> bool:
    try:
        import adbc_driver_sqlite.dbapi  # noqa: F401
    except ImportError:
        if engine == "adbc":
            raise PipelineError("the engine adbc needs: pip install adbc-driver-sqlite pyarrow") from None
        return False
    return True


def is_open_here(path: str) -> bool:
    """Whether a descriptor of this process is on the file; where that cannot be known, it is assumed."""
    try:
        wanted = os.stat(path)
        descriptors = os.listdir("/dev/fd")
    except OSError:
        return True
    for descriptor in descriptors:
        try:
            found = os.fstat(int(descriptor))
        except OSError:  # the listing's own
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False
