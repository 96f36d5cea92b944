"""Status without Spark: what the runner notes, and what is made of a lake's files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import brant
from brant.pipeline import PipelineError, status
from brant.pipeline.lake import Batch, Lake, LakeFile
from brant.pipeline.notes import Notes, read_note
from brant.pipeline.project import Archive, Gold, Project, Silver
from tests.pipeline.commands import shop


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(
        folder=str(tmp_path),
        database=str(tmp_path / "app.db"),
        lake=str(tmp_path / "lake"),
        silver=(Silver("orders", "orders"),),
    )


@pytest.fixture
def lake(project: Project) -> Lake:
    return Lake.of(project, create=True)


def finish(lake: Lake, query: str, batch: int, offsets: dict[str, int]) -> None:
    """As Spark notes a batch that is done."""
    folder = Path(lake.root) / "_checkpoints" / query
    for log in ("offsets", "commits"):
        (folder / log).mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offsets)}")
    (folder / "commits" / str(batch)).write_text("v1\n{}")


def archived(lake: Lake, number: int, **rows: int) -> None:
    files = tuple(LakeFile(f"bronze/events/topic={topic}/date=2026-01-01/x", count, 1) for topic, count in rows.items())
    lake.bronze().log.write(Batch(number, "query", True, files, written_at=1000.0 + number))


def test_a_query_that_has_never_run_has_all_before_it(project: Project, lake: Lake) -> None:
    shop(Path(project.database), orders=3)
    archive, refine, metrics = status(project).queries
    assert (archive.query, refine.query, metrics.query) == ("archive", "refine-orders", "metrics")
    with brant.open(project.database) as db:
        assert archive.lag == sum(len(db.stream(name).read()) for name in db.list_streams())
    assert (archive.batch, archive.batch_at, archive.rows, archive.offsets) == (None, None, 0, {})


def test_the_lag_of_the_archive_counts_only_topics_that_it_takes(project: Project, lake: Lake) -> None:
    shop(Path(project.database), orders=3)
    finish(lake, "archive", 0, {"app": 1})
    only = Project(**{**vars(project), "archive": Archive(topics=("orders",))})
    assert status(only).queries[0].lag == 3


def test_the_lag_of_refine_counts_the_events_of_its_topic(project: Project, lake: Lake) -> None:
    archived(lake, 0, orders=5, other=100)
    archived(lake, 1, orders=7, other=100)
    finish(lake, "refine-orders", 0, {"batch": 0, "clock": 17})
    _, refine, metrics = status(project).queries
    assert (refine.lag, metrics.lag) == (7, 212)
    assert refine.offsets == {"batch": 0}


def test_rows_and_counts_are_added_up_over_finished_batches(project: Project, lake: Lake) -> None:
    silver, quarantine = lake.table("silver/orders"), lake.table("quarantine/orders")
    for number, good in enumerate((5, 7, 11)):
        counts: dict[str, object] = {"late": 1, "malformed": 2, "duplicates": 3, "schema": 1}
        silver.log.write(Batch(number, "q", True, (LakeFile("silver/orders/a", good, 1),), 50.0 + number, facts=counts))
        quarantine.log.write(Batch(number, "q", True, (LakeFile("quarantine/orders/a", 3, 1),)))
    finish(lake, "refine-orders", 1, {"batch": 1})
    refine = status(project).queries[1]
    assert refine.rows == 12, "the third batch is not finished"
    assert refine.counts == {"late": 2, "malformed": 4, "duplicates": 6, "quarantined": 6}


def test_what_retention_took_from_the_inbox_is_counted(project: Project, lake: Lake) -> None:
    log = lake.table("bronze/deliveries").log
    for number, expected in enumerate((5, 7, 100)):
        files = (LakeFile(f"bronze/deliveries/endpoint=shop/date=2026-01-01/{number}", 4, 1),)
        log.write(Batch(number, "q", True, files, facts={"expected": expected}))
    finish(lake, "archive-deliveries", 1, {"app": 12})
    (query,) = (each for each in status(project).queries if each.query == "archive-deliveries")
    assert (query.rows, query.counts, query.offsets) == (8, {"lost": 4}, {"app": 12}), "the third is not finished"


def test_a_gold_table_is_shown_with_its_error(project: Project, lake: Lake) -> None:
    gold = Project(**{**vars(project), "gold": (Gold("revenue", ("silver.orders",), "SELECT 1"),)})
    before = status(gold).queries[-1]
    assert (before.query, before.batch, before.lag) == ("gold-revenue", None, None)
    Notes(lake.files, "gold-revenue").failed("the column total is not there")
    assert status(gold).queries[-1].error == "the column total is not there"


def test_a_database_that_is_away_does_not_hide_the_lake(project: Project, lake: Lake) -> None:
    archived(lake, 0, orders=5)
    finish(lake, "archive", 0, {"app": 5})
    archive = status(project).queries[0]
    assert (archive.lag, archive.rows, archive.batch_at) == (None, 5, 1000.0)


def test_a_query_that_the_project_no_longer_has_is_still_shown(project: Project, lake: Lake) -> None:
    finish(lake, "refine-old", 3, {"batch": 3})
    assert [query.query for query in status(project).queries][-1] == "refine-old"


def test_an_error_stays_until_the_next_one_with_its_time(project: Project, lake: Lake) -> None:
    notes = Notes(lake.files, "archive")
    notes.begun()
    assert status(project).queries[0].is_running
    notes.failed("the disk is full")
    notes.ended()
    Notes(lake.files, "archive").progressed(4, 10, 5.0)
    archive = status(project).queries[0]
    assert (archive.error, archive.is_running) == ("the disk is full", False)
    assert archive.error_at is not None


def test_a_killed_process_does_not_run(lake: Lake) -> None:
    program = """
import os, signal, sys
from brant.pipeline.lake import Lake
from brant.pipeline.notes import Notes
Notes(Lake(sys.argv[1]).files, "archive").begun()
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program, lake.root], check=False)
    note = read_note(lake.files, "archive")
    assert note is not None
    assert note.pid not in (None, os.getpid())
    assert not note.is_running


def test_a_note_that_can_not_be_read_is_passed_over(project: Project, lake: Lake) -> None:
    lake.files.write("_brant/status/archive.json", b"{half")
    assert status(project).queries[0].error is None


def test_without_a_lake_it_says_what_to_run(project: Project) -> None:
    with pytest.raises(PipelineError, match="run `brant pipeline archive` first"):
        status(project)
