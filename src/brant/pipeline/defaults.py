"""How Spark is set for Brant, and why."""

from __future__ import annotations

import os
import re

# All cores, and a failed task is tried again: plain `local[*]` never tries twice.
MASTER = "local[*,3]"

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# Set per session, at any time, on any kind of Spark.
SESSION = {
    # A date in the lake is a date in UTC, wherever the job runs.
    "spark.sql.session.timeZone": "UTC",
    # Else timestamps are INT96, which other readers refuse.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Spark 4.3 returns wrong rows with it when a DataFrame is used twice.
    PUSH_DOWN: "false",
}

_PROCESS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOCAL = {
    # Nobody else on the network has business with this Spark.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A fifth of the time of a micro-batch; the price is no checksum over the files of a checkpoint.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


def is_local(master: str) -> bool:
    """In this process's own JVM; `local-cluster[...]` is not."""
    return master == "local" or master.startswith("local[")


def process_defaults(master: str) -> dict[str, str]:
    if not is_local(master):
        return {**SESSION, **_PROCESS}
    return {**SESSION, **_PROCESS, **_LOCAL, "spark.sql.shuffle.partitions": str(_cores(master))}


def _cores(master: str) -> int:
    """As many as `local[2]` or `local[2,3]` says, else all that this process may use."""
    given = re.match(r"local\[(\d+)", master)
    if given or master == "local":
        return int(given[1]) if given else 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
