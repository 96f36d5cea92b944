"""`spark.read.format("brant")`: rows as they are in the file, in slices, with options for what is read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import brant
from brant.testing import FakeClock

MakeEvents = Callable[..., Path]


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., DataFrame]:
    def read(path: Path, **options: Any) -> DataFrame:
        return spark.read.format("brant").options(**options).load(str(path))

    return read


Read = Callable[..., DataFrame]


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


def test_events_are_read_as_they_were_published(timed: brant.Database, path: Path, read: Read) -> None:
    timed.stream("orders").publish({"n": 1, "text": "ä \U0001f426"}, key="k1")
    timed.stream("mail").publish("plain")
    rows = read(path).orderBy("offset").collect()
    assert [(row["offset"], row["topic"], row["key"], json.loads(row["payload"])) for row in rows] == [
        (1, "orders", "k1", {"n": 1, "text": "ä \U0001f426"}),
        (2, "mail", None, "plain"),
    ]


def test_times_are_moments_in_utc(timed: brant.Database, path: Path, read: Read) -> None:
    timed.stream("orders").publish(1)
    seconds = read(path).selectExpr("unix_seconds(created_at) AS at").collect()[0]["at"]
    assert datetime.fromtimestamp(seconds, UTC) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_column_without_any_value_is_read_as_null(make_events: MakeEvents, read: Read) -> None:
    path = make_events(orders=range(20))
    assert {row["key"] for row in read(path, fetchSize=3).collect()} == {None}


def test_the_first_text_after_a_page_of_nulls_is_read(db: brant.Database, path: Path, read: Read) -> None:
    db.stream("t").publish_many(range(10))
    db.stream("t").publish(10, key="late")
    assert [row["key"] for row in read(path, fetchSize=4).orderBy("offset").collect()] == [None] * 10 + ["late"]


def test_an_empty_database_gives_no_rows(db: brant.Database, path: Path, read: Read) -> None:
    assert read(path).collect() == []


def test_slices_by_offset_range_give_each_row_once(make_events: MakeEvents, read: Read) -> None:
    frame = read(make_events(orders=range(1000)), minPartitions=4, fetchSize=7)
    assert frame.rdd.getNumPartitions() == 4
    assert offsets(frame) == list(range(1, 1001))


def test_a_slice_has_at_most_the_records_asked_for(make_events: MakeEvents, read: Read) -> None:
    frame = read(make_events(orders=range(100)), maxRecordsPerPartition=30)
    assert max(len(part) for part in frame.rdd.glom().collect()) <= 30
    assert offsets(frame) == list(range(1, 101))


@pytest.mark.parametrize("engine", ["adbc", "sqlite3"])
def test_both_engines_read_the_same(make_events: MakeEvents, read: Read, engine: str) -> None:
    path = make_events(orders=[{"n": n} for n in range(50)], mail=["ü"] * 5)
    rows = read(path, engine=engine, fetchSize=8).orderBy("offset").collect()
    assert [json.loads(row["payload"]) for row in rows] == [{"n": n} for n in range(50)] + ["ü"] * 5


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({"subscribe": "a"}, {"a"}),
        ({"subscribe": "a, c"}, {"a", "c"}),
        ({"subscribePattern": "[ab]"}, {"a", "b"}),
        ({"subscribePattern": "x.*"}, set()),
        ({}, {"a", "b", "c"}),
    ],
)
def test_only_the_topics_subscribed_to_are_read(
    make_events: MakeEvents, read: Read, options: dict[str, str], topics: set[str]
) -> None:
    path = make_events(a=[1, 2], b=[3], c=[4, 5])
    assert {row["topic"] for row in read(path, **options).collect()} == topics


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "3"}, [3, 4, 5]),
        ({"startingOffsets": '{"app": 4}'}, [4, 5]),
        ({"startingOffsets": '{"app": -2}', "endingOffsets": '{"app": -1}'}, [1, 2, 3, 4, 5]),
        ({"startingOffsets": "latest"}, []),
        ({"endingOffsets": "3"}, [1, 2]),
        ({"startingOffsets": "2", "endingOffsets": '{"app": 4}'}, [2, 3]),
        ({"endingOffsets": "99"}, [1, 2, 3, 4, 5]),
    ],
)
def test_a_read_begins_and_ends_where_it_is_told(
    make_events: MakeEvents, read: Read, options: dict[str, str], expected: list[int]
) -> None:
    assert offsets(read(make_events(orders=range(5)), **options)) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": "1700000030000"}, [4, 5, 6, 7, 8, 9, 10]),
        ({"startingTimestamp": "2023-11-14T22:15:00"}, [11]),
        ({"endingTimestamp": "2023-11-14T23:13:50+01:00"}, [1, 2, 3]),
        ({"startingTimestamp": "1600000000000", "endingTimestamp": "1700000005000"}, [1]),
        ({"startingTimestamp": "1800000000000"}, []),
    ],
)
def test_a_read_begins_and_ends_at_times(
    timed: brant.Database, clock: FakeClock, path: Path, read: Read, options: dict[str, str], expected: list[int]
) -> None:
    for n in range(10):
        timed.stream("orders").publish(n)
        clock.advance(10)
    found = offsets(read(path, **options))
    assert found == [offset for offset in expected if offset <= 10]


def test_a_schema_reads_only_its_columns(make_events: MakeEvents, spark: SparkSession) -> None:
    path = make_events(orders=[1, 2])
    frame = spark.read.format("brant").schema("topic string, offset bigint").load(str(path))
    assert [tuple(row) for row in frame.orderBy("offset").collect()] == [("orders", 1), ("orders", 2)]


def test_columns_can_be_chosen_by_name(make_events: MakeEvents, read: Read) -> None:
    frame = read(make_events(orders=[7]), columns="payload, offset")
    assert [tuple(row) for row in frame.collect()] == [("7", 1)]


def test_a_frame_used_twice_gives_the_right_rows_each_time(make_events: MakeEvents, read: Read) -> None:
    frame = read(make_events(orders=range(100)))
    few, more = frame.filter("offset <= 10"), frame.filter("offset <= 20")
    assert (few.count(), frame.count(), more.count(), few.union(more).count()) == (10, 100, 20, 30)


def test_filters_are_not_pushed_down(spark: SparkSession) -> None:
    from pyspark.sql.datasource import DataSourceReader

    from brant.pipeline.source import BatchReader

    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
    assert BatchReader.pushFilters is DataSourceReader.pushFilters


def test_a_view_in_sql_reads_it(make_events: MakeEvents, spark: SparkSession) -> None:
    path = make_events(orders=[1, 2, 3])
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_source USING brant OPTIONS (path '{path}')")
    assert spark.sql("SELECT count(*) AS n FROM of_source").collect()[0]["n"] == 3


def test_rows_of_foreign_programs_that_are_no_text_are_read(db: brant.Database, path: Path, read: Read) -> None:
    other = sqlite3.connect(path)
    insert = "INSERT INTO _honker_stream (topic, key, payload) VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))"
    other.execute(insert, ["good", b"k", b'"fine"'])
    other.execute(insert, ["bad", b"\xff", b'"caf\xe9"'])
    other.execute("INSERT INTO _honker_stream (topic, key, payload) VALUES ('blob', NULL, x'00ff41')")
    other.commit()
    other.close()
    rows = {row["topic"]: (row["key"], row["payload"]) for row in read(path).collect()}
    assert rows == {"good": ("k", '"fine"'), "bad": ("\ufffd", '"caf\ufffd"'), "blob": (None, "\0\ufffdA")}


def test_reading_makes_no_file_and_changes_none(make_events: MakeEvents, read: Read) -> None:
    path = make_events(orders=[1])
    before = path.read_bytes()
    read(path).collect()
    assert path.read_bytes() == before
    assert {file.name for file in path.parent.iterdir()} <= {"app.db", "app.db-wal", "app.db-shm"}
