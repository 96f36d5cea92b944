"""The sink in a real Spark: batches and streams of rows into streams and queues."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import brant
from tests.pipeline.sinking import payloads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)

Copy = Callable[..., None]


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    """A folder of text files, each a micro-batch; a test adds more."""
    folder = tmp_path / "arrivals"
    folder.mkdir()
    for name in ("a", "b"):
        arrive(folder, name)
    return folder


def arrive(folder: Path, name: str) -> None:
    (folder / f"{name}.txt").write_text(f"{name}1\n{name}2\n")


@pytest.fixture
def copy(spark: SparkSession, arrivals: Path, path: Path, tmp_path: Path) -> Copy:
    """Run the query that writes the lines to the stream `t`, until it has caught up."""

    def run(checkpoint: str = "checkpoint", **options: object) -> None:
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(arrivals))
        writer = lines.writeStream.format("brant").option("path", str(path)).option("topic", "t")
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        for name, value in options.items():
            writer = writer.option(name, str(value))
        query = writer.start()
        query.awaitTermination()

    return run


def lines_of(*names: str) -> list[str]:
    return sorted(f"{name}{n}" for name in names for n in (1, 2))


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("to_json(struct(id AS n)) AS payload")


def test_a_dataframe_is_appended_to_a_stream(spark: SparkSession, path: Path) -> None:
    numbers(spark, 1000).write.format("brant").option("path", str(path)).option("topic", "t").mode("append").save()

    assert payloads(path) == [{"n": n} for n in range(1000)]


def test_a_dataframe_is_appended_to_a_queue(spark: SparkSession, path: Path) -> None:
    rows = numbers(spark, 10).selectExpr("payload", "CAST(get_json_object(payload, '$.n') AS int) AS priority")
    rows.write.format("brant").option("queue", "q").mode("append").save(str(path))

    with brant.open(path) as db:
        jobs = db.queue("q").claim_batch("w", 10)
        assert [job.payload["n"] for job in jobs] == list(range(9, -1, -1))


def test_a_timestamp_is_the_same_moment_in_the_queue(spark: SparkSession, path: Path) -> None:
    rows = spark.sql("SELECT 'a' AS value, TIMESTAMP '2026-05-31 12:00:00.5 UTC' AS run_at")
    rows.write.format("brant").option("queue", "q").mode("append").save(str(path))

    with brant.open(path) as db:
        assert db.query("SELECT run_at FROM _honker_live") == [{"run_at": 1780228800.5}]


def test_an_empty_dataframe_writes_nothing(spark: SparkSession, path: Path) -> None:
    numbers(spark, 10).where("false").write.format("brant").option("topic", "t").mode("append").save(str(path))

    assert payloads(path) == []


def test_rows_of_many_staged_tasks_land_in_order(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    writer = numbers(spark, 1000, partitions=5).write.format("brant").option("topic", "t").option("inlineMaxBytes", "0")
    writer.option("stagingDir", str(tmp_path / "staging")).mode("append").save(str(path))

    assert payloads(path) == [{"n": n} for n in range(1000)]
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_task_that_failed_and_was_tried_again_counts_once(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if not failed.exists():
                failed.touch()
                raise RuntimeError("the first attempt")

    rows = numbers(spark, 100).mapInArrow(fail_once, "payload string")
    rows.write.format("brant").option("topic", "t").mode("append").save(str(path))

    assert failed.exists()
    assert payloads(path) == [{"n": n} for n in range(100)]


def test_foreach_batch_is_exactly_once_by_version(spark: SparkSession, path: Path, arrivals: Path) -> None:
    def write(rows: DataFrame, batch: int) -> None:
        for _ in range(2):  # as after a crash between the write and Spark's own note of it
            writer = rows.write.format("brant").option("topic", "t").option("txnAppId", "copy")
            writer.option("txnVersion", str(batch)).mode("append").save(str(path))

    lines = spark.readStream.text(str(arrivals))
    query = lines.writeStream.foreachBatch(write).option("checkpointLocation", str(arrivals.parent / "c"))
    query.trigger(availableNow=True).start().awaitTermination()

    assert sorted(payloads(path)) == lines_of("a", "b")


def test_what_a_stream_holds_is_copied_as_it_comes(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.db"

    def copy_all() -> None:
        events = spark.readStream.format("brant").option("subscribe", "orders,refunds")
        rows = events.option("startingOffsets", "earliest").load(str(source))
        writer = rows.writeStream.format("brant").option("path", str(path)).option("checkpointLocation", f"{path}-c")
        writer.trigger(availableNow=True).start().awaitTermination()

    with brant.open(source) as db:
        for round_ in range(2):
            for topic in ("orders", "refunds"):
                db.stream(topic).publish_many([{"round": round_, "n": n} for n in range(50)])
            copy_all()
        for topic in ("orders", "refunds"):
            assert payloads(path, topic) == [event.payload for event in db.stream(topic).read()]


def test_a_query_goes_on_where_it_stopped(copy: Copy, arrivals: Path, path: Path) -> None:
    copy()
    arrive(arrivals, "c")
    copy()

    assert sorted(payloads(path)) == lines_of("a", "b", "c")


def test_a_batch_whose_end_spark_did_not_note_is_written_once(copy: Copy, path: Path, tmp_path: Path) -> None:
    copy()
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    copy()

    assert sorted(payloads(path)) == lines_of("a", "b")


def test_a_lost_checkpoint_is_refused_under_a_fixed_name(copy: Copy, path: Path, tmp_path: Path) -> None:
    copy(txnAppId="lines")
    shutil.rmtree(tmp_path / "checkpoint")

    with pytest.raises(Exception, match="'lines' by another query: the checkpoint was lost or replaced"):
        copy(txnAppId="lines")
    assert sorted(payloads(path)) == lines_of("a", "b")


def test_a_checkpoint_that_was_put_back_is_refused(copy: Copy, path: Path, arrivals: Path, tmp_path: Path) -> None:
    copy()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "backup")
    for name in ("c", "d"):
        arrive(arrivals, name)
        copy()
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "backup").rename(tmp_path / "checkpoint")

    with pytest.raises(Exception, match=r"has batch 3 .* plans batch 2 anew: an older checkpoint was put back"):
        copy()
    assert sorted(payloads(path)) == lines_of("a", "b", "c", "d")


def test_a_database_that_was_put_back_is_refused(copy: Copy, path: Path, arrivals: Path, tmp_path: Path) -> None:
    copy()
    path.unlink()
    arrive(arrivals, "c")

    with pytest.raises(Exception, match=r"checkpoint is at batch 2, but .* knows nothing of this query"):
        copy()
    assert payloads(path) == []


@pytest.mark.parametrize(
    ("column", "mode", "told"),
    [
        ("'no JSON' AS payload", "append", "row 1 of a partition cannot be stored: this is not JSON"),
        ("CAST(NULL AS string) AS value", "append", "has no value (NULL)"),
        ("1 AS n", "append", "there is no column payload or value among n"),
        ("'a' AS value", "overwrite", 'use .mode("append")'),
    ],
)
def test_a_refusal_says_why_and_writes_nothing(
    spark: SparkSession, path: Path, column: str, mode: str, told: str
) -> None:
    with brant.open(path) as db:
        db.stream("t").publish("before")
    with pytest.raises(Exception) as refusal:
        spark.sql(f"SELECT {column}").write.format("brant").option("topic", "t").mode(mode).save(str(path))

    assert told in str(refusal.value)
    assert payloads(path) == ["before"]


@pytest.mark.parametrize(("mode", "told"), [("complete", 'outputMode("append")'), ("update", "Update mode")])
def test_a_query_that_changes_rows_is_refused(
    spark: SparkSession, path: Path, arrivals: Path, tmp_path: Path, mode: Any, told: str
) -> None:
    counts = spark.readStream.text(str(arrivals)).groupBy("value").count().select("value")
    writer = counts.writeStream.format("brant").option("path", str(path)).option("topic", "t").outputMode(mode)
    with pytest.raises(Exception) as refusal:
        writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()

    assert told in str(refusal.value)
    assert not path.exists()
