"""Payloads as columns: what fits the schema, what the schema does not know, and why a row is not good."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom
from pyspark.sql.types import DataType, DateType, NumericType, StringType, StructType, TimestampNTZType, TimestampType

from brant.pipeline.errors import PipelineError
from brant.pipeline.jobs.private import type_at, value_at
from brant.pipeline.project import Silver, seconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT = "_corrupt_record"
_FIELDS = "map<string,variant>"
_MALFORMED = "malformed: "
LATE = "late"
# Epoch seconds of this size are past the year 5000: it is milliseconds.
_MILLISECONDS_FROM = 1e11
_YEARS = (1, 9999)


def parsed(events: DataFrame, table: Silver, columns: StructType) -> DataFrame:
    """Adds `_data` (the columns as one struct), `_extra`, `_event_time`, `_identity`; `_reason`, NULL for good rows."""
    read = events.withColumn("_fields", _top_level()).withColumn("_data", _read(columns))
    data, fields = F.col("_data"), F.col("_fields")
    reason = F.when(F.col("_data").isNull() | fields.isNull(), _MALFORMED + "not a JSON object")
    wrong = F.concat_ws(", ", *(_wrong_type(data, fields, name) for name in columns.names))
    reason = reason.when(data.getField(_CORRUPT).isNotNull(), _wrong_text(wrong))
    read = read.withColumn("_extra", _as_object(_unknown(fields, columns, table)))
    return _timed(read, table, columns, reason).drop("_fields")


def parsed_variant(events: DataFrame, table: Silver) -> DataFrame:
    """As `parsed`, for a table whose payloads stay as they are."""
    read = events.withColumn("_fields", _top_level())
    # VARIANT takes no object that has a name twice.
    is_none = F.col("_fields").isNull() | F.try_parse_json("payload").isNull()
    reason = F.when(is_none, _MALFORMED + "not a JSON object")
    return _timed(read, table, None, reason).drop("_fields")


def require_columns(table: Silver, columns: StructType) -> None:
    """The columns that settings name must be in the schema, and of a use."""
    for path in table.key:
        if type_at(columns, path) is None:
            raise PipelineError(f"silver.{table.name}.key names {path}, and no such column is in its schema")
    if table.event_time is not None:
        kind = type_at(columns, table.event_time)
        if kind is None:
            raise PipelineError(
                f"silver.{table.name}.event_time names {table.event_time}, and no such column is in its schema"
            )
        if not isinstance(kind, TimestampType | TimestampNTZType | DateType | StringType | NumericType):
            raise PipelineError(
                f"silver.{table.name}.event_time is {kind.simpleString()}: it must be a time, a text or a number"
            )


def _top_level() -> Column:
    """The fields of the object; NULL for anything else. In a list, because Spark stops reading behind the first object
    and takes `{...} and more` for good."""
    listed = F.from_json(F.concat(F.lit("["), F.col("payload"), F.lit("]")), f"array<{_FIELDS}>")
    return F.when(F.size(listed) == 1, F.try_element_at(listed, F.lit(1)))


def _read(columns: StructType) -> Column:
    schema = StructType([*columns.fields]).add(_CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(F.col("payload"), schema, options)


def _wrong_type(data: Column, fields: Column, name: str) -> Column:
    """The field's name when the document has it and the schema could not take it."""
    given = F.try_element_at(fields, F.lit(name))
    is_wrong = data.getField(name).isNull() & given.isNotNull() & ~F.is_variant_null(given)
    return F.when(is_wrong, F.lit(name))


def _wrong_text(names: Column) -> Column:
    named = F.concat(F.lit(_MALFORMED + "wrong type: "), names)
    return F.when(names != "", named).otherwise(F.lit(_MALFORMED + "wrong type"))


def _unknown(fields: Column, columns: StructType, table: Silver) -> Column:
    """What the schema has no column for, as the inside of a JSON object; NULL when that is nothing.

    A name that is a rule's but for its case is left out: it would pass by the rule. Objects in lists are not looked
    into.
    """
    private = [rule.lower() for rule in (*table.redact, *table.hash)]
    return _unknown_in(fields, columns, "", private)


def _unknown_in(fields: Column, columns: StructType, path: str, private: list[str]) -> Column:
    known = columns.names
    hidden = [rule[len(path) :] for rule in private if rule.startswith(path)]
    hidden = [rule.partition(".")[0] for rule in hidden]
    others = F.map_filter(fields, lambda name, _: ~(name.isin(*known) | F.lower(name).isin(*hidden)))
    parts = [F.when(F.size(others) > 0, _inside(F.to_json(others)))]
    for field in columns:
        if isinstance(field.dataType, StructType):
            value = F.try_element_at(fields, F.lit(field.name))
            below = _unknown_in(
                F.try_variant_get(value, "$", _FIELDS), field.dataType, f"{path}{field.name.lower()}.", private
            )
            name = F.lit(f"{json.dumps(field.name)}:{{")
            parts.append(F.when(below.isNotNull(), F.concat(name, below, F.lit("}"))))
    joined = F.concat_ws(",", *parts)
    return F.when(joined != "", joined)


def _inside(text: Column) -> Column:
    return F.substring(text, F.lit(2), F.length(text) - 2)


def _as_object(inside: Column) -> Column:
    return F.when(inside.isNotNull(), F.concat(F.lit("{"), inside, F.lit("}")))


def _timed(rows: DataFrame, table: Silver, columns: StructType | None, reason: Column) -> DataFrame:
    """With `_event_time`, `_identity` and the whole of `_reason`."""
    rows = rows.withColumn("_identity", _identity(table, columns))
    missing = F.concat_ws(", ", *(F.when(_at(path, columns).isNull(), F.lit(path)) for path in table.key))
    reason = reason.when(missing != "", F.concat(F.lit(_MALFORMED + "missing key: "), missing))
    created = F.col("created_at")
    if table.event_time is None:
        return rows.withColumn("_event_time", created).withColumn("_reason", reason)
    told = _at(table.event_time, columns)
    rows = rows.withColumn("_told", _as_time(told, type_at(columns, table.event_time) if columns else StringType()))
    known = F.col("_told").isNotNull() & F.year("_told").between(*_YEARS)
    reason = reason.when(told.isNotNull() & ~known, F.lit(f"{_MALFORMED}no time: {table.event_time}"))
    if table.late_after is not None:
        behind = F.unix_micros(created) - F.unix_micros(F.col("_told"))
        reason = reason.when(behind > seconds(table.late_after) * 1_000_000, F.lit(LATE))
    rows = rows.withColumn("_reason", reason)
    return rows.withColumn("_event_time", F.coalesce(F.when(known, F.col("_told")), created)).drop("_told")


def _identity(table: Silver, columns: StructType | None) -> Column:
    """The same text for rows of the same key; tenants have nothing in common."""
    return F.to_json(F.struct("tenant", *(_at(path, columns).alias(f"k{n}") for n, path in enumerate(table.key))))


def _at(path: str, columns: StructType | None) -> Column:
    if columns is not None:
        return value_at(F.col("_data"), path)
    first, *inside = path.split(".")
    value = F.try_element_at(F.col("_fields"), F.lit(first))
    return F.try_variant_get(value, "".join(["$", *(f"['{name}']" for name in inside)]), "string")


def _as_time(value: Column, kind: DataType | None) -> Column:
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return value.cast("timestamp")
    if isinstance(kind, NumericType):
        return _from_number(value.cast("double"))
    return F.coalesce(value.try_cast("timestamp"), _from_number(value.try_cast("double")))


def _from_number(number: Column) -> Column:
    scale = F.when(F.abs(number) >= _MILLISECONDS_FROM, F.lit(1e3)).otherwise(F.lit(1e6))
    return F.timestamp_micros((number * scale).try_cast("bigint"))
