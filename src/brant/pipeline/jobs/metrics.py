"""Gold that Brant computes itself: throughput of topics, work of queues and tasks, dead letters by kind of error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.jobs.recomputed import PARTITION, RecomputedTable
from brant.pipeline.lake import BRONZE_EVENTS, Lake
from brant.pipeline.lake.selection import dates_of, files_between, files_of_dates, frame_of
from brant.pipeline.lake.source import BRONZE_SCHEMA, FORMAT, LakeSource
from brant.pipeline.project import METRICS_TABLES, Metrics, Project, seconds
from brant.pipeline.runner import Progress, Query, run
from brant.pipeline.tables import JOB_EVENTS_TOPIC, statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = "metrics"
_DAY_S = 86_400
# Without braces, which are for frames in a statement.
_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HEXADECIMAL = r"0x[0-9a-fA-F]+|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"


def metrics(spark: SparkSession, project: Project, *, on_progress: Callable[[Progress], None] = lambda _: None) -> None:
    """Bring gold/topics, queues, tasks and dead_letters up to what is in bronze now."""
    run([query(spark, project, Lake.of(project))], on_progress)


def query(spark: SparkSession, project: Project, lake: Lake) -> Query:
    """The streaming query, ready to be started."""
    spark.dataSource.register(LakeSource)
    events = spark.readStream.format(FORMAT).option("lake", lake.root).option("table", BRONZE_EVENTS).load()
    checkpoint = Checkpoint(lake.files, QUERY)
    return Query(QUERY, events.writeStream, _Writer(lake, project.metrics, checkpoint), checkpoint)


class _Writer:
    def __init__(self, lake: Lake, settings: Metrics, checkpoint: Checkpoint) -> None:
        self._lake = lake
        self._checkpoint = checkpoint
        self._window_s = seconds(settings.window)
        self._lookback_s = seconds(settings.lookback)

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Only the dates of the batch are asked for, and the log knows them: its rows are never read."""
        before = self._checkpoint.offsets(number - 1)["batch"] if number else -1
        files = files_between(self._lake.bronze(), before, self._checkpoint.offsets(number)["batch"])
        dates = dates_of(files)
        if dates:
            for name, rows in self._tables(frame.sparkSession, dates):
                RecomputedTable(self._lake, name).put(rows, dates)

    def _tables(self, spark: SparkSession, dates: Collection[str]) -> Iterator[tuple[str, DataFrame]]:
        """The rows of the dates for each table of `METRICS_TABLES`."""
        topics, queues, tasks, dead_letters = METRICS_TABLES
        window = {"window": self._window_s}
        events = self._events(spark, dates)
        if events is not None:
            yield topics, spark.sql(statement("topics", "spark"), window, events=events)
        jobs = self._events(spark, with_days_before(dates, self._lookback_s), JOB_EVENTS_TOPIC)
        if jobs is None:
            return
        lifecycle = spark.sql(statement("lifecycle", "spark"), events=jobs).persist()
        try:
            attempts = spark.sql(
                statement("attempts", "spark"), window, lifecycle=lifecycle, dates=as_frame(spark, dates)
            )
            of_queues = _rates(spark, attempts.withColumn("task", F.lit(None))).drop("task")
            yield queues, spark.sql(statement("queues", "spark"), window, rates=of_queues, lifecycle=lifecycle)
            yield tasks, _rates(spark, attempts.where("task IS NOT NULL"))
            patterns = {"uuid": _UUID, "hexadecimal": _HEXADECIMAL}
            yield dead_letters, spark.sql(statement("dead_letters", "spark"), patterns, attempts=attempts)
        finally:
            lifecycle.unpersist()

    def _events(self, spark: SparkSession, dates: Collection[str], topic: str | None = None) -> DataFrame | None:
        bronze = self._lake.bronze()
        return frame_of(spark, bronze, files_of_dates(bronze, dates, topic), f"{BRONZE_SCHEMA}, batch string")


def _rates(spark: SparkSession, attempts: DataFrame) -> DataFrame:
    return spark.sql(statement("rates", "spark"), attempts=attempts)


def as_frame(spark: SparkSession, dates: Collection[str]) -> DataFrame:
    return spark.createDataFrame([(date.fromisoformat(each),) for each in sorted(dates)], f"{PARTITION} date")


def with_days_before(dates: Collection[str], lookback_s: int) -> set[str]:
    """From the earliest to the latest: what belongs to the date of its end may have begun days before."""
    first = date.fromisoformat(min(dates)) - timedelta(days=-(-lookback_s // _DAY_S))
    last = date.fromisoformat(max(dates))
    return {(first + timedelta(days=day)).isoformat() for day in range((last - first).days + 1)}
