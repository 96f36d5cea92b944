"""Tests that only a cluster can pass; `test_cluster.py` runs them on one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import brant
from brant.pipeline.failures import sentence_of


def test_both_workers_have_their_part(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"folder": [str(Path.cwd())]})

    frame = spark.range(0, 8, 1, 8).mapInArrow(where, "folder string")
    folders: set[str] = set()
    while len(folders) < 2:  # the second executor may come later than the first task
        folders |= {row.folder for row in frame.collect()}
    assert {Path(folder).parent.parent.name for folder in folders} == {"worker-1", "worker-2"}


def test_a_file_that_an_executor_cannot_reach_is_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is another one for each process, as it is on several machines."""
    name = f"unreachable-{os.getpid()}.db"
    path = f"/proc/{'self'}/cwd/{name}"
    try:
        with brant.open(path) as db:
            db.stream("t").publish(1)
        with pytest.raises(Exception) as told:
            spark.read.format("brant").load(path).count()
    finally:
        for left in Path.cwd().glob(f"{name}*"):
            left.unlink()
    assert sentence_of(told.value) == (
        f"there is no database {path} on the machine of this task; on a cluster the file must be reachable from the "
        "executors or be Postgres"
    )
