"""Which columns of a DataFrame become what in a stream or a queue, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from brant.arguments import JsonText, encode, label, queue_name
from brant.errors import InvalidValue
from brant.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_MOMENT = (TimestampType, LongType, IntegerType, DoubleType)
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "payload": ((StringType,), "JSON text as a string: use to_json(struct(...))"),
    "value": ((StringType,), "a string: use cast('string'), or to_json(struct(...)) as the column payload"),
    "key": ((StringType,), "a string: use cast('string')"),
    "topic": ((StringType,), "a string"),
    "queue": ((StringType,), "a string"),
    "priority": (_WHOLE, "a whole number"),
    "max_attempts": (_WHOLE, "a whole number"),
    "run_at": (_MOMENT, "a timestamp, or Unix seconds as bigint or double"),
    "expires_at": (_MOMENT, "a timestamp, or Unix seconds as bigint or double"),
}
_NAME_COLUMN = {"stream": "topic", "queue": "queue"}
_EXTRAS = {"stream": ("key",), "queue": ("priority", "run_at", "max_attempts", "expires_at")}
# What rows read from a stream have besides: they can be written as they are.
_PASSED_OVER = {
    "stream": {"offset", "created_at", "tenant"},
    "queue": {"offset", "topic", "key", "created_at", "tenant"},
}
_PACKED_TYPES = {
    "key": pa.string(),
    "priority": pa.int64(),
    "max_attempts": pa.int64(),
    "run_at": pa.float64(),
    "expires_at": pa.float64(),
}
_MICROS = 1_000_000


@dataclass(frozen=True)
class Layout:
    """The columns that are taken; `name` is the topic or queue of all rows, None where a column tells it."""

    table: str
    name: str | None
    payload: str
    extras: tuple[str, ...]

    def packed_schema(self) -> pa.Schema:
        """What travels from the tasks to the driver."""
        fields = [pa.field("payload", pa.large_string())]
        if self.name is None:
            fields.append(pa.field("name", pa.string()))
        return pa.schema([*fields, *(pa.field(extra, _PACKED_TYPES[extra]) for extra in self.extras)])

    def packed(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """The rows in that form, each payload as JSON text that was checked."""
        columns = [pa.array(self._payloads(batch, first_row), pa.large_string())]
        if self.name is None:
            columns.append(self._names(batch, first_row))
        columns += [_as_packed(batch.column(extra), _PACKED_TYPES[extra]) for extra in self.extras]
        return pa.record_batch(columns, schema=self.packed_schema())

    def _payloads(self, batch: pa.RecordBatch, first_row: int) -> Sequence[str]:
        texts = _texts(batch, self.payload)
        for row, text in enumerate(texts, start=first_row):
            if text is None:
                raise PipelineError(
                    f"row {row} of a partition has no {self.payload} (NULL): leave such rows out, or give them one "
                    "with coalesce(); nothing was written"
                )
            if self.payload == "payload":
                try:
                    JsonText(text)
                except InvalidValue as error:
                    raise PipelineError(
                        f"the payload in row {row} of a partition cannot be stored: {error}; name the column value for "
                        "plain text, or use to_json(); nothing was written"
                    ) from None
        return texts if self.payload == "payload" else list(map(encode, texts))

    def _names(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        column = _NAME_COLUMN[self.table]
        names = _texts(batch, column)
        if None in names:
            row = first_row + names.index(None)
            raise PipelineError(f"row {row} of a partition has no {column} (NULL); nothing was written")
        for name in set(names):
            checked_name(self.table, name)
        return pa.array(names, pa.string())


def layout_of(schema: StructType, table: str | None, topic: str | None, queue: str | None) -> Layout:
    """How these columns are taken, or a refusal that says what to change."""
    columns = set(schema.fieldNames())
    table = table or _guessed_table(columns, topic, queue)
    name = {"stream": topic, "queue": queue}[table]
    other = {"stream": queue, "queue": topic}[table]
    column = _NAME_COLUMN[table]
    if other is not None:
        raise PipelineError(f"a {table} takes the option {column}, not {_other(column)}")
    if name is None and column not in columns:
        raise PipelineError(f'which {column}? Set .option("{column}", ...), or add a column named {column}')
    payload = _payload_column(columns)
    extras = tuple(extra for extra in _EXTRAS[table] if extra in columns)
    _check_no_others(columns - {payload, column, *extras}, table)
    taken = (payload, *extras) if name is not None else (payload, column, *extras)
    for field in schema.fields:
        if field.name in taken:
            _check_type(field.name, field.dataType)
    return Layout(table, None if name is None else checked_name(table, name), payload, extras)


def checked_name(table: str, name: str) -> str:
    try:
        return queue_name(name) if table == "queue" else label(name, "topic")
    except InvalidValue as error:
        raise PipelineError(f"{error}; nothing was written") from None


def _guessed_table(columns: set[str], topic: str | None, queue: str | None) -> str:
    if queue is not None or (topic is None and "queue" in columns and "topic" not in columns):
        return "queue"
    if topic is not None or "topic" in columns:
        return "stream"
    raise PipelineError('where to? Set .option("topic", ...) for a stream or .option("queue", ...) for a queue')


def _other(column: str) -> str:
    return "queue" if column == "topic" else "topic"


def _payload_column(columns: set[str]) -> str:
    found = [column for column in ("payload", "value") if column in columns]
    if len(found) == 2:
        raise PipelineError("the columns payload and value are both there: keep payload (JSON) or value (plain text)")
    if not found:
        raise PipelineError(
            f"there is no column payload or value among {_listed(columns)}; put the row into one with "
            '.select(to_json(struct("*")).alias("payload"))'
        )
    return found[0]


def _check_no_others(others: set[str], table: str) -> None:
    unknown = others - _PASSED_OVER[table]
    if unknown:
        takes = ["payload or value", _NAME_COLUMN[table], *_EXTRAS[table]]
        raise PipelineError(
            f"a {table} has no place for the column {_listed(unknown)}: drop it, or put it into the payload with "
            f"to_json(struct(...)); a {table} takes {', '.join(takes)}"
        )


def _check_type(column: str, found: DataType) -> None:
    allowed, wanted = _TYPES[column]
    if not isinstance(found, allowed):
        raise PipelineError(f"the column {column} is {found.simpleString()} and must be {wanted}")


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(sorted(columns)) or "(no columns)"


def _texts(batch: pa.RecordBatch, column: str) -> Sequence[str]:
    try:
        return batch.column(column).to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        raise PipelineError(f"the column {column} holds text that is not valid UTF-8; nothing was written") from None


def _as_packed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(column.type):
        return column.cast(wanted)
    micros = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return pa.array([None if at is None else at / _MICROS for at in micros.to_pylist()], wanted)
