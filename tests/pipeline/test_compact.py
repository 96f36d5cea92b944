"""Compaction: fewer files, the same rows, for every reader and through every kill. No JVM."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from brant.pipeline import PipelineError
from brant.pipeline.jobs.compact import Compacted, compact
from brant.pipeline.lake import LakeTable
from brant.testing import FakeClock
from tests.pipeline.lakes import (
    OLD,
    OLDER,
    QUERY,
    SCHEMA,
    assert_each_once,
    by_pyarrow,
    by_stream,
    die_at,
    lake_in,
    land,
    project_in,
    rows_of,
    stage,
)
from tests.waiting import in_thread

COMPACT = """
import sys
from pathlib import Path
from brant.pipeline.jobs.compact import compact
from tests.pipeline.lakes import project_in
compact(project_in(Path(sys.argv[1])))
"""


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    """Ten batches of two days and two topics, and a newest one."""
    table = lake_in(tmp_path).bronze()
    for number in range(10):
        days = {f"topic={topic}/date={date}": [number * 4 + place] for place, (topic, date) in enumerate(PLACES)}
        stage(table, number, {folder: rows_of(offsets) for folder, offsets in days.items()})
        table.land(number, QUERY, good=1)
    land(table, 10, [100])
    return table


PLACES = [("orders", OLD), ("orders", OLDER), ("users", OLD), ("users", OLDER)]
OFFSETS = [*range(40), 100]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Compacted]:
    return lambda **options: compact(project_in(tmp_path), **options)[0]


def files_in(table: LakeTable) -> list[str]:
    return [table.files.path_of(info) for info in table.files.files(table.name)]


def follow(table: LakeTable, query: str, batch: int) -> None:
    """The checkpoint of a query that has read the table up to this batch, as Spark writes it."""
    folder = Path(table.files.root, "_checkpoints", query)
    for log in ("offsets", "commits"):
        (folder / log).mkdir(parents=True, exist_ok=True)
        (folder / log / "0").write_text(f"v1\n{{}}\n{json.dumps({'batch': batch})}")


def test_small_files_of_closed_days_become_one_a_partition(table: LakeTable, run: Callable[..., Compacted]) -> None:
    done = run()
    assert (done.folders, done.files_before, done.files_after) == (4, 40, 4)
    assert len(files_in(table)) == 5
    assert f"{table.name}/topic=users/date={OLD}/batch=000000000-000000009" in {
        path.rpartition("/")[0] for path in files_in(table)
    }
    assert_each_once(table, OFFSETS)


def test_a_second_run_finds_nothing_to_do(table: LakeTable, run: Callable[..., Compacted]) -> None:
    run()
    before = files_in(table)
    assert run().folders == 0
    assert files_in(table) == before


def test_the_days_that_are_not_over_stay_as_they_are(table: LakeTable, run: Callable[..., Compacted]) -> None:
    noon = FakeClock(datetime.fromisoformat(f"{OLD}T12:00+00:00"))
    run(clock=noon)
    assert sum(OLD in path for path in files_in(table)) == 21
    assert sum(OLDER in path for path in files_in(table)) == 2
    noon.advance(12 * 3600)
    run(clock=noon)
    assert sum(OLD in path for path in files_in(table)) == 3
    assert_each_once(table, OFFSETS)


def test_the_newest_batch_can_still_be_tried_again(table: LakeTable, run: Callable[..., Compacted]) -> None:
    run()
    land(table, 10, [100, 101])
    assert_each_once(table, [*OFFSETS, 101])


def test_what_a_query_has_not_read_is_left_for_it(table: LakeTable, run: Callable[..., Compacted]) -> None:
    follow(table, "refine-orders", 4)
    follow(table, "metrics", 7)
    done = run()
    assert done.held_by == "refine-orders"
    assert done.files_before == 20
    assert by_stream(table, after=4) == [*range(20, 40), 100]
    assert_each_once(table, OFFSETS)


def test_what_was_folded_stays_folded_for_a_reader_that_is_further_behind(
    table: LakeTable, run: Callable[..., Compacted]
) -> None:
    for number in (11, 12):
        land(table, number, range(number * 10_000, number * 10_000 + 5_000), topic="large")
    for number in range(13, 20):
        land(table, number, [number * 10])
    run(target_bytes=4_000)
    assert table.log.folded_up_to() == 18
    follow(table, "new", 14)
    assert run().folders == 1
    assert table.log.folded_up_to() == 18
    large = [*range(110_000, 115_000), *range(120_000, 125_000)]
    assert_each_once(table, [*OFFSETS, *large, *range(130, 200, 10)])


@pytest.mark.parametrize("batches_at_once", [1, 3, 100])
def test_a_query_that_starts_later_sees_each_row_once(
    table: LakeTable, run: Callable[..., Compacted], batches_at_once: int
) -> None:
    run()
    assert by_stream(table, batches_at_once=batches_at_once) == OFFSETS


def test_what_came_later_to_a_closed_day_joins_it(table: LakeTable, run: Callable[..., Compacted]) -> None:
    run()
    land(table, 11, [110])
    land(table, 12, [120])
    assert run().files_after == 1
    assert_each_once(table, [*OFFSETS, 110, 120])


def test_a_large_file_is_not_written_again(table: LakeTable, run: Callable[..., Compacted]) -> None:
    run(target_bytes=1000)
    assert_each_once(table, OFFSETS)
    large = [path for path in files_in(table) if "-" in path.split("batch=")[1].split("/")[0]]
    land(table, 11, [110])
    run(target_bytes=1000)
    assert set(large) <= set(files_in(table))
    assert_each_once(table, [*OFFSETS, 110])


def test_the_counts_in_the_log_add_up_as_before(table: LakeTable, run: Callable[..., Compacted]) -> None:
    run()
    batches = table.log.between(-1, 10)
    assert sum(int(str(batch.facts.get("good", 0))) for batch in batches) == 10
    assert sum(batch.rows for batch in batches) == len(OFFSETS)
    assert len(batches) < 11


@pytest.mark.parametrize(
    "point", ["compact.before_swap", "compact.between_swaps", "compact.after_swaps", "compact.after_log"]
)
def test_a_killed_compaction_is_finished_by_whoever_comes_next(
    table: LakeTable, tmp_path: Path, run: Callable[..., Compacted], point: str
) -> None:
    die_at(point, COMPACT, tmp_path)
    assert sorted(by_pyarrow(table)) == OFFSETS
    land(table, 11, [110, 111])  # the archive goes on, into a folder that was being swapped
    assert_each_once(table, [*OFFSETS, 110, 111])
    run()
    assert_each_once(table, [*OFFSETS, 110, 111])
    assert len(files_in(table)) <= 6
    assert table.files.files(f"{table.log.staging}/compacted") == []


def test_the_archive_writes_while_compaction_runs(table: LakeTable, run: Callable[..., Compacted]) -> None:
    stop = threading.Event()
    written = list(OFFSETS)

    def archive() -> None:
        for number in range(11, 40):
            land(table, number, [number * 10])
            written.append(number * 10)
        stop.set()

    archived = in_thread(archive)
    while not stop.is_set() and not archived.done():
        run()
    archived.result(60)
    run()
    assert_each_once(table, written)


def test_a_reader_beside_it_gets_all_rows_or_an_error(table: LakeTable, run: Callable[..., Compacted]) -> None:
    def read_until(stop: threading.Event) -> int:
        reads = 0
        while not stop.is_set():
            with suppress(FileNotFoundError):
                assert by_pyarrow(table) == OFFSETS
                reads += 1
        return reads

    stop = threading.Event()
    reads = in_thread(read_until, stop)
    run()
    stop.set()
    assert reads.result(60) > 0


def test_columns_that_came_later_are_null_before(tmp_path: Path, run: Callable[..., Compacted]) -> None:
    table = lake_in(tmp_path).table("silver/orders")
    wider = SCHEMA.append(pa.field("more", pa.string()))
    for number, schema in enumerate((SCHEMA, wider, SCHEMA)):
        stage(table, number, {f"date={OLD}": rows_of([number], schema)})
        table.land(number, QUERY)
    assert run().files_after == 1
    assert by_pyarrow(table) == [0, 1, 2]


def test_files_that_do_not_fit_together_are_left_and_told(tmp_path: Path, run: Callable[..., Compacted]) -> None:
    table = lake_in(tmp_path).table("silver/orders")
    other = SCHEMA.set(1, pa.field("key", pa.int64()))
    for number, schema in enumerate((SCHEMA, other, SCHEMA)):
        stage(table, number, {f"date={OLD}": rows_of([number], schema)})
        table.land(number, QUERY)
    done = run()
    assert done.folders == 0
    assert "different types" in done.skipped[0]
    assert by_stream(table) == [0, 1, 2]


def test_rows_that_the_log_does_not_know_of_stop_it(table: LakeTable, run: Callable[..., Compacted]) -> None:
    entry = Path(table.files.local(f"{table.log.folder}/batches/000000003.json"))
    entry.write_text(entry.read_text().replace('"rows": 1', '"rows": 7'))
    before = files_in(table)
    with pytest.raises(PipelineError, match="nothing was changed"):
        run()
    assert files_in(table) == before


def test_an_unknown_table_is_told(table: LakeTable, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no table 'silver/x' to compact; there are bronze/events"):
        compact(project_in(tmp_path), ["silver/x"])
