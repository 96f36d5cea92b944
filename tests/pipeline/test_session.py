"""The session of the test process, as `brant.pipeline.session()` gives it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from brant.pipeline import PipelineError, session


def test_a_second_call_gives_the_same_session(spark: SparkSession) -> None:
    assert session() is spark
    assert session(config={"spark.ui.enabled": False}) is spark


def test_dates_are_in_utc_and_parquet_is_for_every_reader(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
    assert spark.conf.get("spark.sql.parquet.compression.codec") == "zstd"


def test_a_failed_task_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    once = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not once.exists():
            once.touch()
            raise ValueError("the first time")
        yield from batches

    assert spark.range(3).coalesce(1).mapInArrow(fail_once, "id long").count() == 3


def test_workers_run_this_python_and_not_the_zipped_copy_of_spark(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable], "spark": [pyspark.__file__]})

    rows = spark.range(1).mapInArrow(where, "python string, spark string").collect()
    assert {row.python for row in rows} == {sys.executable}
    assert not any(".zip" in row.spark for row in rows)


def test_the_environment_of_the_program_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.range(1).count() == 1
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_LAUNCHER_OPTS" not in os.environ


def test_it_listens_on_this_machine_only(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def test_the_format_is_there(spark: SparkSession, make_events: Callable[..., Path]) -> None:
    path = make_events(orders=["a", "b"])
    rows = spark.read.format("brant").load(os.fspath(path)).select("topic", "payload").collect()
    assert [tuple(row) for row in rows] == [("orders", '"a"'), ("orders", '"b"')]


def test_a_query_that_starts_does_not_change_what_another_sends_to_its_tasks(spark: SparkSession) -> None:
    """All queries share the map. A plain HashMap that gains a key while it is sent can't be read at the other end."""
    state: Any = spark._jsparkSession.sessionState()
    shared = state.dataSourceManager().lookupDataSource("brant").dataSourceCls().envVars()
    jvm: Any = spark.sparkContext._jvm
    assert jvm.Class.forName("java.util.concurrent.ConcurrentHashMap").isInstance(shared)
    assert isinstance(spark.sparkContext.environment, dict), "the program's own is as it was"


def test_an_error_is_raised_and_not_printed_too(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException, match="nope"):
        spark.sql("SELECT nope").collect()
    assert capfd.readouterr() == ("", "")


def test_filter_push_down_stays_off(spark: SparkSession) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    assert spark.conf.get(setting) == "false"
    with pytest.raises(PipelineError, match="must stay off"):
        session(config={setting: True})


def test_another_master_than_the_running_one_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"runs in this process with master 'local\[\*,3\]', not 'local\[1\]'"):
        session(master="local[1]")


def test_what_can_only_be_set_before_the_start_is_refused_after_it(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"spark\.driver\.memory can only be set before Spark starts"):
        session(config={"spark.driver.memory": "3g"})


def test_master_and_remote_exclude_each_other() -> None:
    with pytest.raises(PipelineError, match="give master or remote, not both"):
        session(master="local[1]", remote="sc://localhost")


@pytest.mark.parametrize("address", ["localhost:15002", "http://localhost", "sc://", "sc://localhost:port"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(PipelineError, match="looks like sc://host:15002"):
        session(remote=address)


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(PipelineError, match=f"no Spark Connect server answers at 127.0.0.1:{port}"):
            session(remote=f"sc://127.0.0.1:{port}")
