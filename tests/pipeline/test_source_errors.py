"""Bad input to the source: one clear line that says what was wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import brant
from brant.pipeline import PipelineError
from tests.pipeline.reading import Follower, batch_reader, rows, source

MakeEvents = Callable[..., Path]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscrbe": "a"}, "unknown option 'subscrbe'; did you mean 'subscribe'?"),
        ({"maxoffsetpertrigger": "1"}, "did you mean 'maxOffsetsPerTrigger'?"),
        ({"zzz": "1"}, "unknown option 'zzz'; known are path, table"),
        ({"table": "streams"}, "'table' must be one of .*; did you mean 'stream'?"),
        ({"fetchSize": "0"}, "'fetchSize' must be a whole number of at least 1, not '0'"),
        ({"minPartitions": "many"}, "'minPartitions' must be a whole number"),
        ({"failOnDataLoss": "maybe"}, "must be true or false, not 'maybe'"),
        ({"startingOffsets": "first"}, "'startingOffsets' must be earliest, latest"),
        ({"startingOffsets": '{"app": "1"}'}, "'startingOffsets' must be earliest, latest"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' cannot be earliest"),
        ({"startingTimestamp": "soon"}, "must be milliseconds since 1970 or a date"),
        ({"startingOffsets": "1", "startingTimestamp": "1"}, "give 'startingOffsets' or 'startingTimestamp', not both"),
        ({"subscribe": "a", "subscribePattern": "a"}, "give 'subscribe' or 'subscribePattern', not both"),
        ({"subscribe": " , "}, "'subscribe' names nothing"),
        ({"subscribePattern": "("}, "is no regular expression"),
        ({"consumer": "a", "groupId": "b"}, "one option under two names"),
        ({"engine": "duckdb"}, "'engine' must be one of auto, adbc, sqlite3"),
        ({"maxTriggerDelay": "long"}, "must be a time such as 30s or 15m"),
        ({"table": "results", "subscribe": "a"}, "'subscribe' has no meaning for the table 'results'"),
        ({"table": "queue", "startingOffsets": "1"}, "has no meaning for the table 'queue'"),
        ({"table": "notifications", "consumer": "c"}, "consumers are kept for streams only"),
        ({"columns": "offset,paylod"}, "the table 'stream' has no column 'paylod'; did you mean 'payload'?"),
        ({"tenantColumn": "key"}, "has a column 'key' itself"),
        ({"subscribe": "ordrs"}, "no event of the topic 'ordrs' in .*; did you mean 'orders'?"),
        ({"startingOffsets": "7"}, "data loss in .*: it ends at 2 but was read up to 6"),
    ],
)
def test_a_wrong_option_is_told(make_events: MakeEvents, options: dict[str, str], message: str) -> None:
    path = make_events(orders=[1, 2])
    with pytest.raises(PipelineError, match=message) as told:
        rows(path, **options)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (StructField("colour", StringType()), "the table 'stream' has no column 'colour'; it has offset, topic"),
        (StructField("ofset", LongType()), "did you mean 'offset'?"),
        (
            StructField("offset", IntegerType()),
            "the column 'offset' of the table 'stream' is BIGINT, not INT; read it so and cast it",
        ),
    ],
)
def test_a_schema_that_does_not_match_is_told(make_events: MakeEvents, column: StructField, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        source(make_events(orders=[1])).reader(StructType([column]))


def test_a_schema_and_columns_that_contradict_are_told(make_events: MakeEvents) -> None:
    with pytest.raises(PipelineError, match="'columns' leaves it out"):
        source(make_events(orders=[1]), columns="topic").reader(StructType([StructField("offset", LongType())]))


def test_a_path_must_be_given() -> None:
    with pytest.raises(PipelineError, match="option 'path' is missing"):
        source("").schema()


def test_a_missing_file_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there is no database .*none\.db"):
        rows(tmp_path / "none.db")
    with pytest.raises(PipelineError, match=r"there is no database .*none\.db"):
        Follower(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["stream", "queue", "notifications", "jobs"])
def test_a_file_that_is_no_database_is_told(tmp_path: Path, table: str) -> None:
    path = tmp_path / "app.db"
    path.write_text("this is a text that is long enough to be looked at\n" * 50)
    with pytest.raises(PipelineError, match="is not an SQLite database"):
        rows(path, table=table)


@pytest.mark.parametrize("table", ["stream", "queue", "dead", "results", "consumers", "notifications", "jobs"])
def test_a_database_without_the_tables_is_told(tmp_path: Path, table: str) -> None:
    path = tmp_path / "app.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (id)")
    other.close()
    with pytest.raises(PipelineError, match=r"has no Brant tables .*; make them with 'brant init'"):
        rows(path, table=table)


def test_a_folder_without_databases_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(PipelineError, match="no database matches"):
        rows(tmp_path)


def test_other_databases_are_refused() -> None:
    with pytest.raises(PipelineError, match="'mysql' databases cannot be read; give"):
        rows("mysql://host/app")


@pytest.mark.parametrize("table", ["queue", "dead", "results", "consumers"])
def test_a_table_that_changes_in_place_is_no_stream(db: brant.Database, path: Path, table: str) -> None:
    found = source(path, table=table)
    with pytest.raises(PipelineError, match=f"the table '{table}' changes in place and cannot be read as a stream"):
        found.streamReader(found.schema())


def test_a_stream_has_no_end(db: brant.Database, path: Path) -> None:
    with pytest.raises(PipelineError, match="a stream has no end"):
        Follower(path, endingOffsets="5")


@pytest.mark.parametrize("table", ["stream", "queue"])
def test_a_task_that_does_not_see_the_file_says_where_it_must_be(db: brant.Database, path: Path, table: str) -> None:
    db.stream("orders").publish(1)
    reader = batch_reader(path, table=table)
    parts = reader.partitions()
    db.close()
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(
        PipelineError, match="on a cluster the file must be reachable from the executors or be Postgres"
    ):
        list(reader.read(parts[0]))


def test_an_error_reaches_the_user_through_spark(make_events: MakeEvents, spark: SparkSession) -> None:
    frame = spark.read.format("brant").option("subscribe", "ordrs").load(str(make_events(orders=[1])))
    with pytest.raises(Exception, match=r"no event of the topic 'ordrs' in .*; did you mean 'orders'"):
        frame.collect()
