"""Gold tables of the project's own: SQL or Python over other tables, for the dates that have changed in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

from brant.pipeline.errors import PipelineError
from brant.pipeline.jobs.recomputed import PARTITION, Computed, RecomputedTable
from brant.pipeline.jobs.steps import Step
from brant.pipeline.lake import Lake
from brant.pipeline.lake.selection import dates_of, files_between, files_of_dates, folder_value, frame_of
from brant.pipeline.lake.source import BRONZE_SCHEMA
from brant.pipeline.project import Gold, Project, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def gold(spark: SparkSession, project: Project, *, only: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Compute the project's gold tables, or `only` some, in the order of their sources; tells the dates of each."""
    unknown = set(only) - {table.name for table in project.gold}
    if unknown:
        raise PipelineError(f"there is no gold table {', '.join(sorted(unknown))} in the project")
    lake = Lake.of(project)
    tables = [table for table in in_order(project.gold) if not only or table.name in only]
    return {table.name: _compute(spark, project, lake, table) for table in tables}


def _compute(spark: SparkSession, project: Project, lake: Lake, table: Gold) -> list[str]:
    target = RecomputedTable(lake, table.name)
    definition = _definition(table)
    # What was computed in another way is computed anew, all of it.
    known = target.computed if target.computed.definition == definition else Computed()
    sources = [_Source(lake, name) for name in table.sources]
    # Noted before the files are listed: what comes in between is seen again in the next run, never missed.
    positions = {source.name: source.position for source in sources}
    dates: set[str] = set().union(*(source.changed(known.sources.get(source.name, -1)) for source in sources))
    if not known.definition:
        dates.update(target.dates())
    if not dates:
        return []
    views = {source.name: source.rows(spark, dates) for source in sources}
    if any(frame is None for frame in views.values()):
        return []  # a source that was never written has no columns yet
    step = Step(f"gold.{table.name}", table.sql, table.python, project.folder)
    try:
        rows = _checked(step.applied({name: frame for name, frame in views.items() if frame}), table, dates)
        with step.named():
            target.put(rows, dates, sources=positions, definition=definition)
    finally:
        step.forget_views(spark)
    return sorted(dates)


def _checked(made: DataFrame, table: Gold, dates: Collection[str]) -> DataFrame:
    if PARTITION not in made.columns:
        raise PipelineError(
            f"gold.{table.name}: its rows have no column date, which says in which folder a row is: "
            f"select the date of the source"
        )
    rows = made.withColumn(PARTITION, F.col(PARTITION).cast("date"))
    asked = F.col(PARTITION).cast("string").isin(*dates)
    message = "it gave rows of other dates than its sources have: select the date of the source"
    return rows.where(F.when(asked, F.lit(True)).otherwise(F.raise_error(F.lit(message)).cast("boolean")))


def _definition(table: Gold) -> str:
    """Changes when the table is made in another way. What a Python function does inside is not looked at."""
    described = json.dumps([table.sources, table.sql, table.python])
    return hashlib.sha256(described.encode()).hexdigest()[:16]


class _Source:
    """A table that another one is made from: `bronze.events`, `silver.orders`, `gold.topics`."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.name = name
        layer, _, short = name.partition(".")
        self._recomputed = RecomputedTable(lake, short) if layer == "gold" else None
        self._table = lake.bronze() if name == "bronze.events" else lake.table(f"{layer}/{short}")
        self._schema = f"{BRONZE_SCHEMA}, batch string" if name == "bronze.events" else None

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
