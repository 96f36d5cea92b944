"""Rules for what should not be in silver: fields emptied, or hashed with a salt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom
from pyspark.sql.types import DataType, StringType, StructField, StructType

from brant.pipeline.errors import PipelineError
from brant.pipeline.project import Silver

if TYPE_CHECKING:
    from pyspark.sql import Column

SALT = "BRANT_PIPELINE_SALT"
_BLANK = "***"


def salt_for(table: Silver) -> str:
    """From the environment, so that it is in no file; needed only where something is hashed."""
    salt = os.environ.get(SALT, "")
    if table.hash and not salt:
        raise PipelineError(
            f"silver.{table.name}.hash needs a salt: set {SALT} to a secret text that stays the same from run to run"
        )
    return salt


def with_rules_kept(columns: StructType, table: Silver, inferred: bool) -> StructType:
    """The columns, each rule's among them: a field that a rule is for must never pass by it into `_extra`."""
    for rule in (*table.redact, *table.hash):
        columns = _with_path(columns, rule.split("."), rule, table, inferred)
    return columns


def _with_path(columns: StructType, path: Sequence[str], rule: str, table: Silver, inferred: bool) -> StructType:
    name, *inside = path
    found = next((field for field in columns if field.name == name), None)
    if found is None and not inferred:
        raise PipelineError(f"silver.{table.name}: there is a rule for {rule}, and no such column in its schema")
    kind: DataType = StringType() if found is None and not inside else found.dataType if found else StructType()
    if inside:
        if not isinstance(kind, StructType):
            raise PipelineError(
                f"silver.{table.name}: the rule for {rule} goes into {name}, which is {kind.simpleString()}, not an "
                f"object: give the rule for {name} as a whole"
            )
        kind = _with_path(kind, inside, rule, table, inferred)
    changed = StructField(name, kind)
    if found is None:
        return StructType([*columns.fields, changed])
    return StructType([changed if field is found else field for field in columns])


def cleaned(data: Column, columns: StructType, table: Silver, salt: str) -> Column:
    """The parsed document with its rules applied."""
    for rule in table.redact:
        kind = type_at(columns, rule) or StringType()
        old = value_at(data, rule)
        blank = F.when(old.isNotNull(), F.lit(_BLANK)) if isinstance(kind, StringType) else F.lit(None).cast(kind)
        data = data.withField(_quoted(rule), blank)
    for rule in table.hash:
        old = value_at(data, rule)
        text = F.to_json(old) if _is_nested(type_at(columns, rule)) else old.cast("string")
        data = data.withField(_quoted(rule), F.sha2(F.concat(F.lit(salt), text), 256))
    return data


def value_at(data: Column, path: str) -> Column:
    for name in path.split("."):
        data = data.getField(name)
    return data


def type_at(columns: StructType, path: str) -> DataType | None:
    """None when there is no such column."""
    kind: DataType = columns
    for name in path.split("."):
        if not isinstance(kind, StructType) or name not in kind.names:
            return None
        kind = kind[name].dataType
    return kind


def _is_nested(kind: DataType | None) -> bool:
    return kind is not None and kind.typeName() in ("struct", "array", "map", "variant")


def _quoted(path: str) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in path.split("."))
