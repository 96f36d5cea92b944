"""What holds wherever Spark runs: in this process, on a cluster, behind a Connect server.

Here it is `local[*]`. `test_cluster.py` and `test_connect.py` run the same tests on the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession, functions

import brant
from brant.pipeline import runner
from brant.pipeline.failures import sentence_of
from brant.pipeline.jobs import archive
from brant.pipeline.lake import Lake
from brant.pipeline.project import Archive, Project
from tests.pipeline.cluster import MASTER, REMOTE

MakeEvents = Callable[..., Path]


def test_the_spark_is_the_one_that_was_asked_for(spark: SparkSession) -> None:
    if REMOTE in os.environ:
        assert type(spark).__module__ == "pyspark.sql.connect.session"
    else:
        assert spark.sparkContext.master == os.environ.get(MASTER, "local[*,3]")


def test_a_batch_read_gives_each_event_once(make_events: MakeEvents, spark: SparkSession) -> None:
    path = make_events(orders=[{"n": n} for n in range(3000)], mail=["x"])
    frame = spark.read.format("brant").option("minPartitions", 4).option("fetchSize", 100).load(str(path))
    by_topic = frame.selectExpr("topic", "offset", "spark_partition_id() AS slice").groupBy("topic")
    totals = functions.count("*"), functions.sum("offset"), functions.count_distinct("slice")
    found = {row.topic: tuple(row)[1:] for row in by_topic.agg(*totals).collect()}
    assert found == {"orders": (3000, sum(range(1, 3001)), 4), "mail": (1, 3001, 1)}


def test_a_folder_of_tenants_is_read(tenants: Path, spark: SparkSession) -> None:
    frame = spark.read.format("brant").load(str(tenants))
    assert dict(map(tuple, frame.groupBy("tenant").count().collect())) == {"ann": 3, "bob": 2, "cy": 1}


def test_what_is_wrong_is_said_in_one_sentence(make_events: MakeEvents, spark: SparkSession) -> None:
    path = make_events(orders=[1])
    with pytest.raises(Exception) as told:
        spark.read.format("brant").option("subscribe", "order").load(str(path)).count()
    assert sentence_of(told.value) == f"there is no event of the topic 'order' in {path}; did you mean 'orders'?"


def test_a_stream_is_copied_once_through_restarts_and_a_batch_that_comes_again(
    db: brant.Database, path: Path, tmp_path: Path, spark: SparkSession
) -> None:
    target, checkpoint = tmp_path / "target.db", tmp_path / "checkpoint"

    def copy() -> None:
        events = spark.readStream.format("brant").option("startingOffsets", "earliest")
        rows = events.option("maxOffsetsPerTrigger", 40).option("consumer", "copier").load(str(path))
        writer = rows.select("payload", "key").writeStream.format("brant").option("path", str(target))
        writer = writer.option("topic", "copied").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    db.stream("t").publish_many(range(100))
    copy()
    newest = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    (checkpoint / "commits" / str(newest)).unlink()
    (checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    db.stream("t").publish_many(range(100, 130))
    copy()
    with brant.open(target) as copied:
        assert [event.payload for event in copied.stream("copied").read(limit=-1)] == list(range(130))
    assert db.stream("t").get_offset("copier") == 130


def test_the_archive_agrees_with_the_database(
    db: brant.Database, path: Path, tmp_path: Path, spark: SparkSession
) -> None:
    project = Project(
        folder=str(tmp_path),
        database=str(path),
        lake=str(tmp_path / "lake"),
        archive=Archive(max_events_per_batch=40),
    )
    lake = Lake(project.lake, create=True)
    published = []
    told: list[runner.Progress] = []
    for first in (0, 100):
        for topic in ("orders", "mail"):
            texts = [{"topic": topic, "n": n} for n in range(first, first + 50)]
            db.stream(topic).publish_many(texts)
            published += [(topic, text) for text in texts]
        runner.run([archive.query(spark, project, lake)], told.append)
        assert (told[-1].batch, told[-1].lag) == (lake.bronze().log.last_complete(), 0)
    rows = ds.dataset(lake.bronze().url, partitioning="hive").to_table().sort_by("offset").to_pylist()
    assert [(row["topic"], json.loads(row["payload"])) for row in rows] == published
    assert [row["offset"] for row in rows] == list(range(1, 201))
    assert archive.prune(project, lake, [("app", str(path))]) == {"app": 200}
