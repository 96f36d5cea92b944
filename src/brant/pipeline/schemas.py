"""The columns that a read gives: the table's own, chosen ones, or those of the user's schema."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from brant.pipeline.errors import PipelineError
from brant.pipeline.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


_SPARK_TYPES = {"BIGINT": LongType(), "STRING": StringType(), "TIMESTAMP": TimestampType(), "BINARY": BinaryType()}


def tenant_column(options: ReadOptions) -> str | None:
    """The name under which the tenant can be read, whether or not it is asked for."""
    return "tenant" if options.tenant_column is None else options.tenant_column or None


def default_schema(options: ReadOptions, *, is_many: bool) -> StructType:
    """All columns of the table, and the tenant where the path stands for many files or it was named."""
    types = _types(options)
    if options.columns is not None:
        chosen: Iterable[str] = options.columns
    else:
        with_tenant = is_many if options.tenant_column is None else bool(options.tenant_column)
        chosen = [name for name in types if with_tenant or name != tenant_column(options)]
    return StructType([StructField(name, _SPARK_TYPES[_type_of(name, types, options)]) for name in chosen])


def checked_schema(schema: StructType, options: ReadOptions) -> StructType:
    types = _types(options)
    for field in schema.fields:
        expected = _type_of(field.name, types, options)
        given = field.dataType.simpleString().upper()
        if given != expected:
            raise PipelineError(
                f"the column {field.name!r} of the table {options.table.name!r} is {expected}, not {given}; "
                "read it so and cast it"
            )
        if options.columns is not None and field.name not in options.columns:
            raise PipelineError(f"the schema has the column {field.name!r}, but the option 'columns' leaves it out")
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


def _types(options: ReadOptions) -> dict[str, str]:
    types = {column.name: column.type for column in options.table.columns}
    tenant = tenant_column(options)
    if tenant in types and tenant is not None:
        raise PipelineError(
            f"the table {options.table.name!r} has a column {tenant!r} itself; choose another tenantColumn"
        )
    return types if tenant is None else types | {tenant: "STRING"}


def _type_of(name: str, types: dict[str, str], options: ReadOptions) -> str:
    """Its SQL type; an unknown name is an error."""
    if name not in types:
        near = get_close_matches(name.lower(), types, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(types)}"
        raise PipelineError(f"the table {options.table.name!r} has no column {name!r}; {hint}")
    return types[name]
