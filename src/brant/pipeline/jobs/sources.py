"""The tables of the lake that others are computed from: what has changed in them, and their rows by date."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

from brant.pipeline.archives import BRONZE_REJECTS, BY_TARGET
from brant.pipeline.jobs.recomputed import PARTITION, RecomputedTable
from brant.pipeline.lake import Lake
from brant.pipeline.lake.selection import dates_of, files_between, files_of_dates, folder_value, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source:
    """A table that another one is made from: `bronze.events`, `silver.orders`, `gold.topics`."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.name = name
        layer, _, short = name.partition(".")
        path = f"{layer}/{short}"
        is_recomputed = layer == "gold" or path == BRONZE_REJECTS
        self._recomputed = RecomputedTable(lake, short, layer) if is_recomputed else None
        self._table = lake.table(path)
        # Else a topic of digits is taken for a number.
        self._schema = f"{BY_TARGET[path].columns}, batch string" if path in BY_TARGET else None

    @property
    def position(self) -> int:
        """The last batch, or the last run of a gold table."""
        return self._recomputed.computed.run if self._recomputed else self._table.log.last_complete()

    def changed(self, since: int) -> set[str]:
        if self._recomputed:
            return self._recomputed.computed.changed_since(since)
        return dates_of(files_between(self._table, since, self._table.log.last_complete()))

    def rows(self, spark: SparkSession, dates: Collection[str]) -> DataFrame | None:
        """Those of the dates; of a table that has others only, none, with its columns."""
        files = self._recomputed.files() if self._recomputed else files_of_dates(self._table, None)
        wanted = [file for file in files if folder_value(file.path, PARTITION) in dates] or files[:1]
        frame = frame_of(spark, self._table, wanted, self._schema)
        if frame is None:
            return None
        return frame.where(F.col(PARTITION).cast("string").isin(*dates)).drop("batch")
