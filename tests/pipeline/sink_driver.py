"""A driver to be killed: copies the stream `events` of one database into the stream `copied` of another.

    python sink_driver.py SOURCE TARGET CHECKPOINT once|forever

It prints a line once the query runs. When the query fails, nothing is cleaned up: the whole driver dies by kill -9.
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark.errors import StreamingQueryException

from brant.pipeline import session


def main(source: str, target: str, checkpoint: str, how_long: str) -> None:
    spark = session("sink driver", master="local[2,3]", config={"spark.driver.memory": "512m"})
    events = spark.readStream.format("brant").option("subscribe", "events").option("startingOffsets", "earliest")
    # Small batches, so that there are many commits to die at; large ones to catch up with what came meanwhile.
    most = "300" if how_long == "forever" else "20000"
    rows = events.option("maxOffsetsPerTrigger", most).load(source).select("payload", "key")
    # Past 2000 bytes the rows of a task go by file: both ways are killed.
    writer = rows.writeStream.format("brant").option("path", target).option("topic", "copied")
    writer = writer.option("checkpointLocation", checkpoint).option("inlineMaxBytes", "2000")
    query = (writer.trigger(availableNow=True) if how_long == "once" else writer).start()
    print("running", flush=True)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error, file=sys.stderr, flush=True)
        os.killpg(os.getpgrp(), signal.SIGKILL)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
