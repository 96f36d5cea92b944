"""Guessing the columns of JSON documents from a sample of them; no Spark needed."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

# An object with more names than these is a dictionary with ids for names: its JSON text says it better.
_MOST_FIELDS_INSIDE = 100
_MOST_COLUMNS = 500
_MOST_LEVELS = 20
_LONGEST = 2**63 - 1


def inferred(payloads: Iterable[str]) -> StructType | None:
    """The columns that hold every document of the sample; None when there is no object among them."""
    columns: DataType = NullType()
    for payload in payloads:
        try:
            document = json.loads(payload)
        except (ValueError, RecursionError):
            continue  # it goes to quarantine in its time
        if isinstance(document, dict):
            columns = _merged(columns, _struct(document, 0))
    if not isinstance(columns, StructType):
        return None
    return StructType([StructField(field.name, _settled(field.dataType)) for field in columns][:_MOST_COLUMNS])


def _type_of(value: object, level: int) -> DataType:
    match value:
        case None:
            return NullType()
        case bool():
            return BooleanType()
        case int():
            return LongType() if -_LONGEST <= value <= _LONGEST else StringType()
        case float():
            return DoubleType()
        case list() if level < _MOST_LEVELS:
            inside: DataType = NullType()
            for item in value:
                inside = _merged(inside, _type_of(item, level + 1))
            return ArrayType(inside)
        case dict() if level < _MOST_LEVELS:
            return _struct(value, level)
    return StringType()


def _struct(document: dict[str, object], level: int) -> StructType:
    return _of_fields([(name, _type_of(value, level + 1)) for name, value in document.items()])


def _of_fields(fields: Iterable[tuple[str, DataType]]) -> StructType:
    """Spark does not tell `id` from `ID`: the first one is the column."""
    kept: dict[str, StructField] = {}
    for name, kind in fields:
        if name:
            kept.setdefault(name.lower(), StructField(name, kind))
    return StructType(list(kept.values()))


def _merged(one: DataType, other: DataType) -> DataType:
    """The narrowest type that holds both; text holds everything, as JSON."""
    if one == other or isinstance(other, NullType):
        return one
    if isinstance(one, NullType):
        return other
    if {type(one), type(other)} == {LongType, DoubleType}:
        return DoubleType()
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_merged(one.elementType, other.elementType))
    if isinstance(one, StructType) and isinstance(other, StructType):
        types = {field.name: field.dataType for field in one}
        for field in other:
            types[field.name] = _merged(types.get(field.name, NullType()), field.dataType)
        return _of_fields(types.items())
    return StringType()


def _settled(kind: DataType) -> DataType:
    """Without what a Parquet file can't hold: a column of nothing, an object without fields."""
    if isinstance(kind, NullType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_settled(kind.elementType))
    if isinstance(kind, StructType):
        if not 0 < len(kind.fields) <= _MOST_FIELDS_INSIDE:
            return StringType()
        return StructType([StructField(field.name, _settled(field.dataType)) for field in kind])
    return kind
