"""The sink's writers, driven as Spark drives them: planned, written by tasks, committed on the driver."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import brant
from brant.pipeline.sink import BatchWriter, StreamWriter, batch_writer, stream_writer

if TYPE_CHECKING:
    from brant.pipeline.sink_parts import Part

QUERY = "7f0c5a52-0000-4000-8000-000000000001"

Columns = Mapping[str, list[Any]]


def plan_batch(schema: str, overwrite: bool = False, /, **options: object) -> BatchWriter:
    return batch_writer(_texts(options), _struct(schema), overwrite)


def plan_stream(schema: str, overwrite: bool = False, /, **options: object) -> StreamWriter:
    return stream_writer(_texts(options), _struct(schema), overwrite)


def run_task(writer: BatchWriter | StreamWriter, schema: str, columns: Columns, query: str | None = None) -> Part:
    """What a task hands to the driver, through the pickle that it travels in."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    batch = pa.record_batch(
        [pa.array(columns[field.name], field.type) for field in to_arrow_schema(_struct(schema), timezone="UTC")],
        schema=to_arrow_schema(_struct(schema), timezone="UTC"),
    )
    part: Part = pickle.loads(pickle.dumps(writer.write(iter([batch]))))
    return replace(part, query=query)


def append(schema: str, columns: Columns, **options: object) -> None:
    """A batch write of one task."""
    writer = plan_batch(schema, **options)
    writer.commit([run_task(writer, schema, columns)])


class FakeCheckpoint:
    """The files of a checkpoint that the sink reads, as Spark lays them out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "offsets").mkdir(parents=True)
        (folder / "metadata").write_text(f'{{"id":"{QUERY}"}}')

    def plan(self, batch: int, what: str = "") -> None:
        (self.folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{batch} {what}")


def run_batch(
    path: Path | str, checkpoint: FakeCheckpoint, batch: int, texts: list[str], query: str = QUERY, **options: object
) -> None:
    """One micro-batch of a query, from its plan to its commit."""
    writer = plan_stream("value string", path=path, topic="t", checkpointLocation=checkpoint.folder, **options)
    writer.commit([run_task(writer, "value string", {"value": texts}, query)], batch)


def payloads(path: Path | str, topic: str = "t") -> list[Any]:
    with brant.open(path) as db:
        return [event.payload for event in db.stream(topic).read(limit=-1)]


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def _struct(schema: str) -> Any:
    """Without Spark's own parser, which needs a JVM."""
    from pyspark.sql import types

    known = {
        "string": types.StringType(),
        "binary": types.BinaryType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "double": types.DoubleType(),
        "date": types.DateType(),
        "timestamp": types.TimestampType(),
        "timestamp_ntz": types.TimestampNTZType(),
        "struct<n:int>": types.StructType([types.StructField("n", types.IntegerType())]),
    }
    fields = [words.split() for words in schema.split(",")]
    return types.StructType([types.StructField(name, known[kind]) for name, kind in fields])
