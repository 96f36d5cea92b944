"""Streaming queries of a real Spark over files: checkpoints, restarts, new tenants, a writer beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import brant
from tests.waiting import PATIENCE_S, line_of, python

MakeEvents = Callable[..., Path]


@pytest.fixture
def archive(spark: SparkSession, tmp_path: Path) -> Callable[..., StreamingQuery]:
    """Runs a query to its end, with a checkpoint that the next run goes on from."""

    def run(path: Path, **options: str) -> StreamingQuery:
        reader = spark.readStream.format("brant").option("startingOffsets", "earliest").options(**options)
        writer = reader.load(str(path)).writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "out"))
        assert query.awaitTermination(PATIENCE_S * 2)
        return query

    return run


Archive = Callable[..., StreamingQuery]


def archived(spark: SparkSession, tmp_path: Path, *columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).select(*columns).collect())


def test_runs_one_after_the_other_take_each_event_once(
    db: brant.Database, path: Path, tmp_path: Path, spark: SparkSession, archive: Archive
) -> None:
    db.stream("t").publish_many(range(50))
    archive(path, maxOffsetsPerTrigger="20", consumer="archive")
    planned = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert [json.loads(plan.read_text().splitlines()[2]) for plan in planned] == [{"app": n} for n in (20, 40, 50)]
    assert db.stream("t").get_offset("archive") == 50
    db.stream("t").publish_many(range(7))
    archive(path, consumer="archive")
    assert archived(spark, tmp_path, "offset") == [(n,) for n in range(1, 58)]
    assert db.stream("t").get_offset("archive") == 57


def test_tenants_that_come_between_runs_are_complete_and_in_the_checkpoint(
    make_events: MakeEvents, tenants: Path, tmp_path: Path, spark: SparkSession, archive: Archive
) -> None:
    archive(tenants)
    make_events("tenants/dee.db", orders=[1, 2])
    make_events("tenants/ann.db", orders=[4])
    query = archive(tenants)
    found = archived(spark, tmp_path, "tenant", "offset")
    expected = {"ann": 4, "bob": 2, "cy": 1, "dee": 2}
    assert found == [(tenant, n) for tenant, count in expected.items() for n in range(1, count + 1)]
    assert query.lastProgress is not None
    assert json.loads(query.lastProgress["sources"][0]["endOffset"]) == expected


WRITER = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    print("open", flush=True)
    for n in range(2000):
        db.stream("t").publish({"n": n}, key=str(n))
    print("done", flush=True)
    sys.stdin.readline()
"""


def test_a_live_writer_gets_on_and_nothing_of_it_is_missed(path: Path, tmp_path: Path, spark: SparkSession) -> None:
    with python(WRITER, path) as writer:
        assert line_of(writer) == "open"
        reader = spark.readStream.format("brant").option("startingOffsets", "earliest").option("fetchSize", "50")
        query = (
            reader.load(str(path))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start(str(tmp_path / "out"))
        )
        try:
            assert line_of(writer) == "done"
            query.processAllAvailable()
        finally:
            query.stop()
        assert archived(spark, tmp_path, "offset") == [(n,) for n in range(1, 2001)]


def test_loss_stops_the_query_with_the_range_that_is_missing(db: brant.Database, path: Path, archive: Archive) -> None:
    db.stream("t").publish_many(range(5))
    archive(path)
    db.stream("t").publish_many(range(5))
    db.stream("t").prune(keep=1)
    with pytest.raises(Exception, match=r"data loss in .*app\.db: events 6 to 9 were removed"):
        archive(path)
    archive(path, failOnDataLoss="false")
