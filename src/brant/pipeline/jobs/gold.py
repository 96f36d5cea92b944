"""Gold tables of the project's own: SQL or Python over other tables, for the dates that have changed in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

from brant.pipeline.errors import PipelineError
from brant.pipeline.jobs.recomputed import PARTITION, Computed, RecomputedTable, noting
from brant.pipeline.jobs.sources import Source
from brant.pipeline.jobs.steps import Step
from brant.pipeline.lake import Lake
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
    return {table.name: _noted(spark, project, lake, table) for table in tables}


def _noted(spark: SparkSession, project: Project, lake: Lake, table: Gold) -> list[str]:
    with noting(lake, table.name):
        return _compute(spark, project, lake, table)


def _compute(spark: SparkSession, project: Project, lake: Lake, table: Gold) -> list[str]:
    target = RecomputedTable(lake, table.name)
    definition = _definition(table)
    # What was computed in another way is computed anew, all of it.
    known = target.computed if target.computed.definition == definition else Computed()
    sources = [Source(lake, name) for name in table.sources]
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
