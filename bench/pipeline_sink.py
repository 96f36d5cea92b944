"""The Spark sink: rows a second into a live file, and how long a concurrent enqueue waits at worst.

`python -m bench.pipeline_sink` prints the table for several sizes of a micro-batch.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import brant
from bench.measure import Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = (2_000, 10_000, 50_000, 200_000)
_LANDED = 50_000
_FEWEST_BATCHES = 4
_MOST_ROWS = 400_000


@dataclass
class Figures:
    """Of one size of a micro-batch, from end to end."""

    batch: int
    rows_per_s: float
    worst_stall_ms: float
    median_enqueue_ms: float

    def __str__(self) -> str:
        waits = f"an enqueue beside it waits {self.median_enqueue_ms:.1f} ms, {self.worst_stall_ms:.0f} ms at worst"
        return f"Spark sink, {self.batch:,} rows a batch: {self.rows_per_s:,.0f} rows/s; {waits}"


def cases(folder: Path) -> list[Case]:
    """What the driver does with a batch while it holds the write lock, against the same rows by a bare executemany."""
    try:
        import pyarrow as pa
        from pyspark.sql.types import StringType, StructField, StructType

        from brant.pipeline.sink import batch_writer
    except ImportError:
        return []
    texts = [_payload(n) for n in range(_LANDED)]
    schema = StructType([StructField("payload", StringType())])
    writer = batch_writer({"path": str(folder / "sink.db"), "topic": "t"}, schema, False)
    part = writer.write(iter([pa.record_batch([pa.array(texts)], names=["payload"])]))
    brant.open(folder / "sink-floor.db").close()
    bare = sqlite3.connect(folder / "sink-floor.db", isolation_level=None)
    bare.execute("PRAGMA synchronous = FULL")

    def insert(_: int) -> None:
        now = int(time.time())
        bare.execute("BEGIN IMMEDIATE")
        bare.executemany(
            "INSERT INTO _honker_stream (topic, payload, created_at) VALUES ('t', ?, ?)",
            ((text, now) for text in texts),
        )
        bare.execute("COMMIT")

    return [Case("Spark sink, rows of a batch", _LANDED, lambda _: writer.commit([part]), insert, 0.3)]


def measure(folder: Path) -> Iterator[Figures]:
    """Copies from file to file in a Spark of two cores, with an application that enqueues into the target."""
    from brant.pipeline import session

    spark = session("bench of the sink", master="local[2,3]")
    try:
        _copy(spark, folder, 2_000)  # warms everything up
        for batch in BATCHES:
            yield _copy(spark, folder, batch)
    finally:
        spark.stop()


def _copy(spark: SparkSession, folder: Path, batch: int) -> Figures:
    place = Path(tempfile.mkdtemp(dir=folder))
    source, target = place / "source.db", place / "target.db"
    rows = min(_MOST_ROWS, batch * _FEWEST_BATCHES)
    with brant.open(source) as db:
        for start in range(0, rows, 50_000):
            db.stream("t").publish_many([{"n": n} for n in range(start, min(rows, start + 50_000))])
    events = spark.readStream.format("brant").option("subscribe", "t").option("startingOffsets", "earliest")
    writer = events.option("maxOffsetsPerTrigger", str(batch)).load(str(source)).writeStream.format("brant")
    writer = writer.option("path", str(target)).option("checkpointLocation", str(place / "checkpoint"))
    with _application(target) as waits:
        start_s = time.perf_counter()
        writer.trigger(availableNow=True).start().awaitTermination()
        took = time.perf_counter() - start_s
    with brant.open(target) as db:
        copied = db.query("SELECT count(*) AS n FROM _honker_stream")[0]["n"]
    if copied != rows:
        raise RuntimeError(f"{copied} of {rows} rows were copied")
    waits.sort()
    return Figures(batch, rows / took, waits[-1] * 1000, waits[len(waits) // 2] * 1000)


@contextmanager
def _application(target: Path) -> Iterator[list[float]]:
    """Enqueues about two hundred times a second; gives how long each call took."""
    waits: list[float] = []
    stop = threading.Event()

    def work() -> None:
        with brant.open(target, busy_timeout_ms=60_000) as db:
            queue = db.queue("own")
            while not stop.wait(0.005):
                start = time.perf_counter()
                queue.enqueue({"n": 1})
                waits.append(time.perf_counter() - start)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield waits
    finally:
        stop.set()
        worker.join()


def _payload(n: int) -> str:
    return f'{{"id": {n}, "kind": "order", "amount": {n % 997}.5, "note": "a line of text of usual length"}}'


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for figures in measure(Path(name)):
            print(figures)
