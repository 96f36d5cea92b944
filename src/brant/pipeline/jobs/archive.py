"""Bronze: every event of the databases in the lake, once, as it was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brant.failpoint import failpoint
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.jobs.folders import in_folders
from brant.pipeline.jobs.prune import CONSUMER, QUERY, prune
from brant.pipeline.jobs.topics import Topics
from brant.pipeline.lake import Lake
from brant.pipeline.project import Project
from brant.pipeline.runner import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CONSUMER", "QUERY", "prune", "query"]


def query(spark: SparkSession, project: Project, lake: Lake) -> Query:
    """The streaming query, ready to be started."""
    topics = Topics(project.archive.topics, lake.bronze().log)
    topics.refuse_unfit()
    reader = (
        spark.readStream.format("brant")
        .options(**_options(project))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", project.archive.max_events_per_batch)
        .option("consumer", CONSUMER)
    )
    if project.archive.topics:
        reader = reader.option("subscribe", ",".join(project.archive.topics))
    return Query(QUERY, reader.load().writeStream, _Writer(project, lake, topics), Checkpoint(lake.files, QUERY))


def _options(project: Project) -> dict[str, str]:
    return {"path": project.database, "tenantColumn": "tenant"}


class _Writer:
    """A function that Spark can send to its server."""

    def __init__(self, project: Project, lake: Lake, topics: Topics) -> None:
        self._options = _options(project)
        self._checkpoint = Checkpoint(lake.files, QUERY)
        self._table = lake.bronze()
        self._topics = topics

    def __call__(self, frame: DataFrame, number: int) -> None:
        failpoint("archive.before_write")
        plan = self._checkpoint.plan(number)
        held = self._topics.held_with(number)
        missed = self._missed(frame.sparkSession, number)
        events = frame if missed is None else frame.unionByName(missed)
        self._table.write_batch(_as_stored(events), number, self._checkpoint.query_id(), plan, **held.facts())
        failpoint("archive.after_write")

    def _missed(self, spark: SparkSession, number: int) -> DataFrame | None:
        if number == 0:
            return None
        return self._topics.missed(spark, number, self._options, self._checkpoint.offsets(number - 1))


def _as_stored(events: DataFrame) -> DataFrame:
    """With the columns of bronze."""
    return in_folders(events.select("offset", "topic", "key", "payload", "created_at", "tenant"), "topic", "created_at")
