"""Which files of a table hold what: by the names of their folders, from the table's log."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from brant.pipeline.lake.batches import LakeFile
from brant.pipeline.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def folder_value(path: str, column: str) -> str | None:
    """`orders` for topic in `bronze/events/topic=orders/date=.../part.parquet`."""
    for part in os.path.dirname(path).split("/"):
        name, is_value, value = part.partition("=")
        if is_value and name == column:
            return unquote(value)
    return None


def files_between(table: LakeTable, after: int, to: int, topic: str | None = None) -> list[LakeFile]:
    """What the batches behind `after`, up to and with `to`, have brought."""
    files = [file for batch in table.log.between(after, to) for file in batch.files]
    return files if topic is None else [file for file in files if folder_value(file.path, "topic") == topic]


def files_of_dates(table: LakeTable, dates: Collection[str] | None, topic: str | None = None) -> list[LakeFile]:
    """Those of whole batches only: what is being written now is not yet there."""
    files = files_between(table, -1, table.log.last_complete(), topic)
    return files if dates is None else [file for file in files if folder_value(file.path, "date") in dates]


def dates_of(files: Iterable[LakeFile]) -> set[str]:
    return {date for file in files if (date := folder_value(file.path, "date")) is not None}


def frame_of(
    spark: SparkSession, table: LakeTable, files: Iterable[LakeFile], schema: StructType | str | None = None
) -> DataFrame | None:
    """The rows of some files; None when there are no files. Without a schema, the columns of all of them."""
    paths = [table.files.url(file.path) for file in files]
    if not paths:
        return None
    reader = spark.read.option("basePath", table.url)
    # Else a topic of digits is taken for a number.
    reader = reader.option("mergeSchema", "true") if schema is None else reader.schema(schema)
    return reader.parquet(*paths)
