"""Runs what pipelines do, once, so that Java learns which classes they need: `python -m brant.pipeline.training`."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

import brant
from brant.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXIT_S = 300


def train(java_options: list[str]) -> None:
    """Returns when Java has ended, and with that has written what `java_options` ask for."""
    from brant.pipeline.session import start

    with tempfile.TemporaryDirectory() as folder:
        spark = start("brant training", "local[2,3]", {}, java_options)
        try:
            _work(spark, folder)
        finally:
            code = _end(spark)
    if code:
        raise PipelineError(f"Java ended with {code}")


def _end(spark: SparkSession) -> int:
    """Java ends when its standard input does."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    java: subprocess.Popen[bytes] = gateway.proc
    java.communicate(timeout=EXIT_S)
    return java.returncode


def _work(spark: SparkSession, folder: str) -> None:
    """A small pipeline: events to Parquet, then typed, without repetitions, counted."""
    import pyspark_brant

    spark.dataSource.register(pyspark_brant.DefaultSource)
    path = os.path.join(folder, "app.db")
    with brant.open(path) as db:
        db.stream("orders").publish_many([{"id": n % 90, "state": "paid"} for n in range(100)])
    spark.read.format("brant").load(path).collect()
    bronze = os.path.join(folder, "bronze")

    def write(batch: DataFrame, number: int) -> None:
        batch.write.partitionBy("topic").mode("overwrite").parquet(os.path.join(bronze, f"batch={number}"))

    events = spark.readStream.format("brant").option("startingOffsets", "earliest").load(path)
    archive = events.writeStream.foreachBatch(write).option("checkpointLocation", os.path.join(folder, "archive"))
    archive.trigger(availableNow=True).start().awaitTermination()
    rows = spark.read.parquet(bronze).selectExpr("created_at", "from_json(payload, 'id int, state string') AS event")
    typed = rows.select("created_at", "event.*")
    typed.groupBy("state").count().orderBy("count").toArrow()
    silver = spark.readStream.schema(spark.read.parquet(bronze).schema).parquet(bronze)
    unique = silver.withWatermark("created_at", "1 hour").dropDuplicatesWithinWatermark(["payload"])
    refine = unique.writeStream.format("noop").option("checkpointLocation", os.path.join(folder, "refine"))
    refine.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    from brant.pipeline.classes import make_archive
    from brant.pipeline.java import find_java

    os.nice(19)
    make_archive(find_java())


if __name__ == "__main__":
    main()
