"""A table of the lake as a stream: each batch of its log once, in order, whatever compaction does to its files.

Spark's own file stream remembers files by their names: it would take a batch that was tried again, or compacted, for
new rows. Here the position is the number of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from brant.pipeline.archives import EVENTS
from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.batches import BatchLog
from brant.pipeline.lake.files import LakeFiles

FORMAT = "brant_lake"
BRONZE_SCHEMA = EVENTS.columns
_ROWS_AT_ONCE = 8192


class LakeSource(DataSource):
    """`spark.readStream.format("brant_lake").option("lake", root).option("table", "bronze/events")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return BRONZE_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return LakeStreamReader(
            self._option("lake"), self._option("table"), schema, int(self.options.get("maxBatchesPerTrigger", 0))
        )

    def _option(self, name: str) -> str:
        try:
            return str(self.options[name])
        except KeyError:
            raise PipelineError(f"the format {FORMAT} needs the option {name!r}") from None


@dataclass(frozen=True)
class _File(InputPartition):
    path: str


class LakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"batch": n}: the last batch that has been read."""

    def __init__(self, root: str, table: str, schema: StructType, batches_at_once: int) -> None:
        self._root = root
        self._table = table
        self._schema = schema
        self._batches_at_once = batches_at_once
        self._target: int | None = None

    @property
    def _log(self) -> BatchLog:
        return BatchLog(LakeFiles(self._root), self._table)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": -1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self._batches_at_once) if self._batches_at_once else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._log.last_complete()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        newest = self._log.last_complete() if self._target is None else self._target
        if isinstance(limit, ReadMaxFiles):
            newest = min(newest, start["batch"] + limit.max_files)
        return {"batch": max(newest, start["batch"])}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": self._log.last_complete()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        batches = self._log.between(start["batch"], end["batch"])
        return [_File(file.path) for batch in batches for file in batch.files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File)  # noqa: S101, for the type checker
        files = LakeFiles(self._root)
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        folders = _values_in(partition.path)
        with _opened(files, partition.path) as file:
            parquet = pq.ParquetFile(file)
            stored = [name for name in wanted.names if name in parquet.schema_arrow.names]
            for rows in parquet.iter_batches(_ROWS_AT_ONCE, columns=stored):
                yield _as_wanted(rows, wanted, folders)

    def commit(self, end: dict[str, int]) -> None:
        """Spark's checkpoint keeps the position."""


def _opened(files: LakeFiles, path: str) -> pa.NativeFile:
    try:
        return files.open(path)
    except FileNotFoundError:
        raise PipelineError(
            f"{files.root}/{path} is gone: if the table was compacted while it was read, run this again"
        ) from None


def _values_in(path: str) -> dict[str, str | None]:
    """What the names of the folders say: topic=orders/date=2026-01-01."""
    pairs = (part.partition("=") for part in os.path.dirname(path).split("/") if "=" in part)
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for name, _, value in pairs}


def _as_wanted(rows: pa.RecordBatch, wanted: pa.Schema, folders: dict[str, str | None]) -> pa.RecordBatch:
    columns = [_column(rows, field, folders) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _column(rows: pa.RecordBatch, field: pa.Field, folders: dict[str, str | None]) -> pa.Array:
    if field.name in rows.schema.names:
        return rows.column(field.name).cast(field.type)
    value: Any = folders.get(field.name)
    if value is not None and pa.types.is_date(field.type):
        value = date.fromisoformat(value)
    return pa.repeat(pa.scalar(value, field.type), rows.num_rows)
