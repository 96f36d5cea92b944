"""Tables of the lake: each batch counts once, whatever was tried, killed or put back. No JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from brant.pipeline import PipelineError
from brant.pipeline.lake import Lake, LakeTable
from tests.pipeline.lakes import OLD, OLDER, assert_each_once, by_pyarrow, die_at, lake_in, land, rows_of, stage

LAND = """
import sys
from pathlib import Path
from tests.pipeline.lakes import OLD, OLDER, QUERY, lake_in, rows_of, stage
table = lake_in(Path(sys.argv[1])).bronze()
stage(table, 1, {f"topic=orders/date={OLD}": rows_of([10, 11]), f"topic=orders/date={OLDER}": rows_of([12])})
table.land(1, QUERY)
"""


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return lake_in(tmp_path).bronze()


def test_batches_are_there_once_for_every_reader(table: LakeTable) -> None:
    land(table, 0, [1, 2])
    land(table, 1, [3], topic="a/b:c=d %é'\"")
    assert_each_once(table, [1, 2, 3])
    assert sorted(batch.rows for batch in table.log.between(-1, 1)) == [1, 2]


def test_a_batch_that_comes_again_takes_the_place_of_the_first_try(table: LakeTable) -> None:
    land(table, 0, [1, 2], date=OLD)
    land(table, 0, [1, 2, 3], date=OLDER)
    assert_each_once(table, [1, 2, 3])


@pytest.mark.parametrize("point", ["lake.before_moves", "lake.between_moves", "lake.after_moves"])
def test_a_batch_whose_writer_was_killed_is_there_once_after_the_next_try(
    table: LakeTable, tmp_path: Path, point: str
) -> None:
    land(table, 0, [1, 2])
    die_at(point, LAND, tmp_path)
    assert table.log.last_complete() == 0
    land(table, 1, [10, 11, 12])
    assert_each_once(table, [1, 2, 10, 11, 12])


def test_an_empty_batch_is_a_batch(table: LakeTable) -> None:
    stage(table, 0, {})
    assert table.land(0, "q").rows == 0
    assert table.log.last_complete() == 0


def test_a_batch_of_another_query_is_refused(table: LakeTable) -> None:
    land(table, 0, [1])
    with pytest.raises(PipelineError, match="checkpoint was lost or replaced"):
        land(table, 0, [1], query="another")
    assert by_pyarrow(table) == [1]


@pytest.mark.parametrize("number", [0, 3])
def test_a_batch_that_does_not_follow_is_refused(table: LakeTable, number: int) -> None:
    land(table, 0, [1])
    land(table, 1, [2])
    with pytest.raises(PipelineError, match=r"up to 1, .* asks for .*put back from a copy"):
        land(table, number, [9])
    assert by_pyarrow(table) == [1, 2]


def test_a_batch_that_was_planned_anew_is_refused(table: LakeTable) -> None:
    land(table, 0, [1], plan="a")
    with pytest.raises(PipelineError, match="plans batch 0 anew"):
        land(table, 0, [1, 2], plan="b")
    assert by_pyarrow(table) == [1]


def test_a_lake_that_was_lost_under_its_checkpoint_is_told(table: LakeTable) -> None:
    with pytest.raises(PipelineError, match="the checkpoint is at batch 7, and bronze/events has none"):
        land(table, 7, [1])


def test_two_processes_do_not_write_one_table(table: LakeTable) -> None:
    with table.writing(), pytest.raises(PipelineError, match="being written by another process"), table.writing():
        pass


def test_a_lake_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    Path(lake.root, "_brant/lake.json").write_text('{"version": 2}')
    with pytest.raises(PipelineError, match=r"newer Brant \(format 2\): upgrade"):
        Lake(lake.root)


@pytest.mark.parametrize("marker", ["", "[]", "{}", '{"version": "x"}', '{"version": 1, "format": "orc"}'])
def test_a_damaged_marker_is_one_sentence(tmp_path: Path, marker: str) -> None:
    lake = lake_in(tmp_path)
    Path(lake.root, "_brant/lake.json").write_text(marker)
    with pytest.raises(PipelineError, match=r"can't be read|does not know"):
        Lake(lake.root)


def test_no_lake_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there is no lake at .*brant pipeline archive"):
        Lake(str(tmp_path / "nothing"))


def test_a_damaged_log_is_one_sentence(table: LakeTable) -> None:
    land(table, 0, [1])
    entry = Path(table.files.local(f"{table.log.folder}/batches/000000000.json"))
    entry.write_text(json.dumps({"number": 0}))
    with pytest.raises(PipelineError, match="can't be read"):
        table.log.last()


def test_hidden_folders_are_no_tables(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake.bronze(), 0, [1])
    shutil.copytree(Path(lake.root, "bronze/events"), Path(lake.root, "bronze/.old"))
    assert [table.name for table in lake.tables()] == ["bronze/events"]


def test_rows_wait_in_staging_until_they_are_landed(table: LakeTable) -> None:
    land(table, 0, [1])
    stage(table, 1, {f"topic=orders/date={OLD}": rows_of([2])})
    assert_each_once(table, [1])
