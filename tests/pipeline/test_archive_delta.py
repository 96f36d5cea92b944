"""The archive into Delta tables: their readers see what readers of plain Parquet see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import brant
from brant.pipeline.jobs import archive
from brant.pipeline.lake import Lake
from brant.pipeline.project import Archive
from brant.pipeline.runner import run
from tests.pipeline.lakes import by_pyarrow, project_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_events_are_in_the_delta_table_once(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    project = project_in(tmp_path, format="delta", archive=Archive(max_events_per_batch=4))
    with brant.open(project.database) as db:
        db.stream("a/b é").publish_many(range(6))
        db.stream("orders").publish_many(range(6), keys=[None] * 6)
    lake = Lake.of(project, create=True)
    run([archive.query(spark, project, lake)])
    rows = DeltaTable(lake.bronze().url).to_pyarrow_table()
    assert sorted(rows.column("offset").to_pylist()) == by_pyarrow(lake.bronze()) == list(range(1, 13))
    assert set(rows.column("topic").to_pylist()) == {"a/b é", "orders"}

    gold = lake.table("gold/numbers")
    for value in ("first", "second"):
        gold.replace_partitions(spark.sql(f"SELECT '{value}' AS value, DATE'2020-01-01' AS date"))
    assert DeltaTable(gold.url).to_pyarrow_table().column("value").to_pylist() == ["second"]
    assert [row.value for row in gold.read(spark).collect()] == ["second"]
