"""Spark's many lines about an error, as the one that says what went wrong. The errors are Spark's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brant.pipeline import PipelineError
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.failures import UNKNOWN, sentence_in, sentence_of
from brant.pipeline.lake import Lake
from brant.pipeline.notes import read_note
from brant.pipeline.runner import Query, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def failure_of(spark: SparkSession, sql: str) -> str:
    with pytest.raises(Exception) as raised:
        spark.sql(sql).collect()
    return sentence_of(raised.value)


def test_errors_of_sql_are_one_line(spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("failures_numbers")
    column = failure_of(spark, "SELECT idd FROM failures_numbers")
    assert "`idd`" in column
    assert "`id`" in column
    table = failure_of(spark, "SELECT * FROM no_such_table_here")
    assert "no_such_table_here" in table
    syntax = failure_of(spark, "SELEC 1")
    assert "SELEC" in syntax
    cast = failure_of(spark, "SELECT CAST('x' AS INT) FROM failures_numbers")
    assert "'x'" in cast
    for text in (column, table, syntax, cast):
        assert "\n" not in text
        assert "SQLSTATE" not in text
        assert "org.apache" not in text


def test_a_failed_task_is_told_by_its_cause_and_not_by_the_name_of_a_proxy() -> None:
    told = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "table.py", line 70, in write_batch
py4j.protocol.Py4JJavaError: An error occurred while calling o331.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed: java.io.OptionalDataException
\tat java.base/java.io.ObjectInputStream.readObject0(ObjectInputStream.java:1756)
Caused by: java.io.OptionalDataException
"""
    assert sentence_in(told) == "Job aborted due to stage failure: Task 0 failed: java.io.OptionalDataException"


def test_a_query_that_fails_tells_why_in_one_line_and_notes_it(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"), create=True)

    def broken(frame: DataFrame, number: int) -> None:
        raise PipelineError("the table is upside down: turn it")

    def unforeseen(frame: DataFrame, number: int) -> None:
        raise ZeroDivisionError("division by nothing")

    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    for name, write, expected in (
        ("failing-broken", broken, "the table is upside down: turn it"),
        ("failing-unforeseen", unforeseen, "ZeroDivisionError: division by nothing"),
    ):
        query = Query(name, rates.writeStream, write, Checkpoint(lake.files, name))
        with pytest.raises(PipelineError) as raised:
            run([query])
        assert str(raised.value) == f"{name}: {expected}"
        note = read_note(lake.files, name)
        assert note is not None
        assert (note.error, note.is_running) == (expected, False)
        assert note.error_at is not None


def test_a_full_disk_is_said_as_such() -> None:
    text = "Job aborted\njava.io.IOException: No space left on device\n\tat java.base/..."
    assert sentence_in(text).startswith("the disk is full")


def test_the_last_cause_of_a_java_error_is_told() -> None:
    outer = "org.apache.spark.SparkException: Job aborted."
    text = f"{outer}\n\tat org.x.Y\nCaused by: java.net.UnknownHostException: no-such-host"
    assert sentence_in(text) == "no-such-host"


def test_no_text_at_all_is_still_a_sentence() -> None:
    assert sentence_in(" \n ") == UNKNOWN


def test_a_java_error_without_a_text_is_told_by_its_name() -> None:
    told = "An error occurred while calling o215.parquet.\n: java.lang.InterruptedException\n\tat java.base/x.Y.z()"
    assert sentence_in(told) == "java.lang.InterruptedException"
