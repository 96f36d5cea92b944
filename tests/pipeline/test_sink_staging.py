"""Rows too many for a message travel in files, of which none stay behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from brant.pipeline.errors import PipelineError
from brant.pipeline.sink import BatchWriter
from tests.pipeline.sinking import append, payloads, plan_batch, run_task

SCHEMA = "value string"
ROWS = {"value": [f"row {n}" for n in range(20_000)]}


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    return tmp_path / "staging"


def plan(path: Path, staging: Path, most: int = 1000) -> BatchWriter:
    return plan_batch(SCHEMA, path=path, topic="t", inlineMaxBytes=most, stagingDir=staging)


def test_few_rows_travel_in_the_message(path: Path, staging: Path) -> None:
    part = run_task(plan(path, staging, 1_000_000), SCHEMA, ROWS)

    assert part.data is not None
    assert not staging.exists()


def test_many_rows_travel_in_a_file_for_its_owner_only(path: Path, staging: Path) -> None:
    writer = plan(path, staging)
    part = run_task(writer, SCHEMA, ROWS)

    assert part.data is None
    (file,) = staging.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    writer.commit([part])
    assert payloads(path) == ROWS["value"]


def test_staged_files_are_gone_after_the_commit(path: Path, staging: Path) -> None:
    writer = plan(path, staging)
    writer.commit([run_task(writer, SCHEMA, ROWS) for _ in range(2)])

    assert list(staging.iterdir()) == []


def test_without_a_folder_they_are_staged_beside_the_database(path: Path) -> None:
    writer = plan_batch(SCHEMA, path=path, topic="t", inlineMaxBytes=0)
    part = run_task(writer, SCHEMA, ROWS)

    assert part.file is not None
    assert Path(part.file).parent == Path(f"{path}-spark-staging")


def test_staged_files_are_gone_after_a_refusal_too(path: Path, staging: Path) -> None:
    append(SCHEMA, ROWS, path=path, topic="t", txnAppId="a", txnVersion=2)
    writer = plan_batch(
        SCHEMA, path=path, topic="t", inlineMaxBytes=1000, stagingDir=staging, txnAppId="a", txnVersion=1
    )
    part = run_task(writer, SCHEMA, ROWS)
    with pytest.raises(PipelineError):
        writer.commit([part])
    writer.abort([part, None])  # as Spark does then

    assert list(staging.iterdir()) == []


def test_a_task_that_fails_removes_its_file(path: Path, staging: Path) -> None:
    writer = plan_batch("payload string", path=path, topic="t", inlineMaxBytes=0, stagingDir=staging)
    with pytest.raises(PipelineError):
        run_task(writer, "payload string", {"payload": ["1", "no JSON"]})

    assert list(staging.iterdir()) == []


def test_only_the_file_of_the_task_that_won_counts(path: Path, staging: Path) -> None:
    writer = plan(path, staging)
    run_task(writer, SCHEMA, ROWS)  # a speculative twin, whose message Spark drops
    writer.commit([run_task(writer, SCHEMA, ROWS)])

    assert payloads(path) == ROWS["value"]
    assert len(list(staging.iterdir())) == 1


def test_old_files_of_dead_tasks_are_swept_and_new_ones_stay(path: Path, staging: Path) -> None:
    writer = plan(path, staging)
    old, new = (run_task(writer, SCHEMA, ROWS) for _ in range(2))
    foreign = staging / "notes.txt"
    foreign.touch()
    assert old.file is not None
    assert new.file is not None
    two_days_ago = time.time() - 2 * 86_400
    for file in (old.file, foreign):
        os.utime(file, (two_days_ago, two_days_ago))
    writer.commit([run_task(writer, SCHEMA, ROWS)])

    assert set(staging.iterdir()) == {Path(new.file), foreign}


def test_a_file_that_the_driver_cannot_see_is_told_of(path: Path, staging: Path) -> None:
    writer = plan(path, staging)
    part = run_task(writer, SCHEMA, ROWS)
    assert part.file is not None
    Path(part.file).unlink()

    with pytest.raises(PipelineError, match="set stagingDir to a folder that all machines share"):
        writer.commit([part])
    assert payloads(path) == []
