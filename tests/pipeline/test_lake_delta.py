"""A lake of Delta tables: Delta's readers and plain ones see the same rows. No JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from brant.pipeline import PipelineError
from brant.pipeline.jobs.compact import compact
from brant.pipeline.lake import Lake, LakeTable
from tests.pipeline.lakes import (
    OLD,
    QUERY,
    SCHEMA,
    assert_each_once,
    die_at,
    lake_in,
    land,
    project_in,
    rows_of,
    stage,
)

LAND = """
import sys
from pathlib import Path
from tests.pipeline.lakes import lake_in, land
land(lake_in(Path(sys.argv[1]), "delta").bronze(), 1, [10, 11])
"""
ODD = "a/b:c=d %é'"


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return lake_in(tmp_path, "delta").bronze()


def by_delta(table: LakeTable) -> list[int]:
    return sorted(DeltaTable(table.url).to_pyarrow_table(columns=["offset"]).column(0).to_pylist())


def assert_everywhere_once(table: LakeTable, offsets: list[int]) -> None:
    assert_each_once(table, offsets)
    assert by_delta(table) == sorted(offsets)


def test_each_batch_is_one_transaction_with_its_number(table: LakeTable) -> None:
    land(table, 0, [1, 2])
    land(table, 1, [3], topic=ODD)
    assert_everywhere_once(table, [1, 2, 3])
    delta = DeltaTable(table.url)
    assert delta.transaction_version(QUERY) == 1
    assert set(delta.to_pyarrow_table().column("topic").to_pylist()) == {"orders", ODD}


@pytest.mark.parametrize("point", ["lake.between_moves", "lake.after_moves"])
def test_a_killed_batch_enters_once(table: LakeTable, tmp_path: Path, point: str) -> None:
    land(table, 0, [1])
    die_at(point, LAND, tmp_path)
    assert by_delta(table) == [1]
    land(table, 1, [10, 11])
    assert_everywhere_once(table, [1, 10, 11])


def test_a_batch_that_has_entered_is_only_noted_as_complete(table: LakeTable) -> None:
    batch = land(table, 0, [1])
    table.log.write(type(batch)(batch.number, batch.query, files=batch.files))
    done = table._done_before(0, QUERY, "")
    assert done is not None
    assert done.complete
    assert_everywhere_once(table, [1])


def test_compaction_keeps_both_the_same(table: LakeTable, tmp_path: Path) -> None:
    for number in range(5):
        land(table, number, [number], topic=ODD)
    compact(project_in(tmp_path, format="delta"))
    assert_everywhere_once(table, [0, 1, 2, 3, 4])
    assert len(DeltaTable(table.url).file_uris()) == 2
    land(table, 5, [5])
    assert_everywhere_once(table, [0, 1, 2, 3, 4, 5])


def test_columns_that_come_later_are_added(tmp_path: Path) -> None:
    table = lake_in(tmp_path, "delta").table("silver/orders")
    for number, schema in enumerate((SCHEMA, SCHEMA.append(pa.field("more", pa.string())))):
        stage(table, number, {f"date={OLD}": rows_of([number], schema)})
        table.land(number, QUERY)
    assert "more" in {field.name for field in DeltaTable(table.url).schema().fields}
    assert by_delta(table) == [0, 1]


def test_a_lake_keeps_its_format(table: LakeTable, tmp_path: Path) -> None:
    assert Lake(str(tmp_path / "lake")).format == "delta"
    with pytest.raises(PipelineError, match='has the format delta, and the project says parquet: set format = "delta"'):
        Lake.of(project_in(tmp_path))
