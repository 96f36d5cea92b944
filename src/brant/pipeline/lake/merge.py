"""Many small Parquet files as few large ones, a piece at a time: memory does not grow with the files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa
from pyarrow import parquet as pq

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.batches import LakeFile
from brant.pipeline.lake.files import LakeFiles

_ROWS_AT_ONCE = 16_384
_GROUP_BYTES = 64 * 1024 * 1024
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


class Unmergeable(PipelineError):
    """These files can't be joined without a change of what is in them."""


def merge(files: LakeFiles, sources: Sequence[LakeFile], folder: str, target_bytes: int) -> list[LakeFile]:
    """Write the rows of the sources, in their order, into files of about that size in `folder`."""
    schema = _joint_schema(files, sources)
    files.make_folder(folder)
    merged: list[LakeFile] = []
    pieces = _groups(files, sources, schema)
    group = next(pieces, None)
    while group is not None:
        path = f"{folder}/part-{len(merged):05}-{uuid.uuid4().hex}.parquet"
        rows = 0
        with ExitStack() as open_files:
            sink = open_files.enter_context(open(files.local(path), "wb"))
            writer = open_files.enter_context(pq.ParquetWriter(sink, schema, compression="zstd"))
            while group is not None and sink.tell() < target_bytes:
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                rows += group.num_rows
                group = next(pieces, None)
        merged.append(LakeFile(path, rows, os.path.getsize(files.local(path))))
    _check_rows(sources, merged)
    return merged


def _groups(files: LakeFiles, sources: Sequence[LakeFile], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows as tables, each for one row group."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for source in sources:
        with files.open(source.path) as file, pq.ParquetFile(file) as parquet:
            for rows in parquet.iter_batches(_ROWS_AT_ONCE):
                held.append(_as(rows, schema))
                held_bytes += rows.nbytes
                if held_bytes >= _GROUP_BYTES:
                    yield pa.Table.from_batches(held, schema)
                    held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)


def _as(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _joint_schema(files: LakeFiles, sources: Sequence[LakeFile]) -> pa.Schema:
    """That of all the files, where later ones may have more columns."""
    schemas: list[pa.Schema] = []
    for source in sources:
        with files.open(source.path) as file:
            found = pq.read_schema(file)
        # Rewritten by another program than Spark, a VARIANT would come back as a plain struct.
        if b'"variant"' in (found.metadata or {}).get(_SPARK_SCHEMA, b""):
            raise Unmergeable(f"{source.path} has a VARIANT column")
        if not any(found.equals(schema, check_metadata=True) for schema in schemas):
            schemas.append(found)
    if len(schemas) == 1:
        return schemas[0]
    try:
        return pa.unify_schemas([schema.remove_metadata() for schema in schemas])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Unmergeable(f"the files have columns of different types: {error}") from None


def _check_rows(sources: Sequence[LakeFile], merged: Sequence[LakeFile]) -> None:
    before, after = (sum(file.rows for file in some) for some in (sources, merged))
    if before != after:
        raise PipelineError(
            f"{os.path.dirname(sources[0].path)} holds {after} rows, and the lake's log says {before}: nothing was "
            "changed"
        )
