"""A batch that comes again is written once; a checkpoint or a database that was put back is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import brant
from brant.pipeline.errors import PipelineError
from tests.pipeline.sinking import QUERY, FakeCheckpoint, append, payloads, plan_stream, run_batch, run_task
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

pytestmark = pytest.mark.both_backends


@pytest.fixture
def checkpoint(tmp_path: Path) -> FakeCheckpoint:
    made = FakeCheckpoint(tmp_path / "checkpoint")
    for batch in range(10):
        made.plan(batch)
    return made


def marks(path: Path) -> list[dict[str, object]]:
    with brant.open(path) as db:
        schema = "" if db.schema is None else f"{db.schema}."
        return db.query(f"SELECT app, batch, rows FROM {schema}_brant_spark_commits ORDER BY app")


def test_the_mark_tells_the_last_batch_of_a_query(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, ["a", "b"])
    run_batch(path, checkpoint, 1, ["c"])

    assert payloads(path) == ["a", "b", "c"]
    assert marks(path) == [{"app": QUERY, "batch": 1, "rows": 1}]


def test_a_batch_that_comes_again_is_skipped(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, ["a"])
    run_batch(path, checkpoint, 0, ["a"])

    assert payloads(path) == ["a"]


def test_an_empty_batch_is_marked_too(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, [])
    run_batch(path, checkpoint, 1, ["a"])

    assert payloads(path) == ["a"]


def test_a_batch_planned_anew_under_an_old_number_is_refused(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, ["a"])
    checkpoint.plan(0, "another range")

    with pytest.raises(PipelineError, match=r"has batch 0 .* plans batch 0 anew.*nothing was written"):
        run_batch(path, checkpoint, 0, ["b"])
    assert payloads(path) == ["a"]


def test_an_older_checkpoint_that_was_put_back_is_refused(path: Path, checkpoint: FakeCheckpoint) -> None:
    for batch in range(3):
        run_batch(path, checkpoint, batch, [str(batch)])

    with pytest.raises(PipelineError, match=r"has batch 2 .* plans batch 1 anew: an older checkpoint was put back"):
        run_batch(path, checkpoint, 1, ["1"])
    assert payloads(path) == ["0", "1", "2"]


@pytest.mark.files_only("a database on a server is not made by whoever writes first")
def test_a_plan_that_is_gone_is_refused(path: Path, checkpoint: FakeCheckpoint) -> None:
    (checkpoint.folder / "offsets" / "0").unlink()

    with pytest.raises(PipelineError, match="plan of batch 0 cannot be read"):
        run_batch(path, checkpoint, 0, ["a"])
    assert not path.exists()


def test_a_new_checkpoint_under_a_fixed_name_is_refused(path: Path, checkpoint: FakeCheckpoint, tmp_path: Path) -> None:
    run_batch(path, checkpoint, 0, ["a"], txnAppId="copy")
    another = FakeCheckpoint(tmp_path / "another")
    another.plan(1)

    with pytest.raises(PipelineError, match="'copy' by another query: the checkpoint was lost or replaced"):
        run_batch(path, another, 1, ["a"], query="another", txnAppId="copy")
    assert payloads(path) == ["a"]


def test_without_a_fixed_name_a_new_query_starts_anew(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, ["a"])
    run_batch(path, checkpoint, 0, ["a"], query="another")

    assert payloads(path) == ["a", "a"]


def test_two_queries_may_write_to_one_stream(path: Path, checkpoint: FakeCheckpoint) -> None:
    for batch in range(2):
        for query in ("one", "two"):
            run_batch(path, checkpoint, batch, [f"{query} {batch}"], query=query)

    assert payloads(path) == ["one 0", "two 0", "one 1", "two 1"]


@pytest.mark.parametrize("kept", [None, 0], ids=["replaced", "put back"])
def test_a_database_without_the_batches_before_is_refused(
    path: Path, checkpoint: FakeCheckpoint, kept: int | None
) -> None:
    if kept is not None:
        run_batch(path, checkpoint, kept, ["0"])

    with pytest.raises(PipelineError, match=r"checkpoint is at batch 2, but .* database was replaced or put back"):
        run_batch(path, checkpoint, 2, ["2"])
    assert payloads(path) == ([] if kept is None else ["0"])


def test_without_fail_on_data_loss_it_goes_on(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 2, ["2"], failOnDataLoss="false")
    run_batch(path, checkpoint, 5, ["5"], failOnDataLoss="false")

    assert payloads(path) == ["2", "5"]


def test_a_committer_whose_driver_died_long_ago_writes_nothing_twice(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, ["0"])
    writer = plan_stream("value string", path=path, topic="t", checkpointLocation=checkpoint.folder)
    part = run_task(writer, "value string", {"value": ["1"]}, QUERY)
    with write_lock_held(path):
        orphan, heir = (in_thread(writer.commit, [part], 1) for _ in range(2))
    for committer in (orphan, heir):
        committer.result(PATIENCE_S)

    assert payloads(path) == ["0", "1"]


def test_a_checkpoint_that_is_an_address_is_found(path: Path, checkpoint: FakeCheckpoint, tmp_path: Path) -> None:
    spaced = tmp_path / "with space"
    shutil.copytree(checkpoint.folder, spaced)
    writer = plan_stream("value string", path=path, topic="t", checkpointLocation=spaced.as_uri())
    part = run_task(writer, "value string", {"value": ["a"]}, QUERY)
    for _ in range(2):
        writer.commit([part], 0)

    assert payloads(path) == ["a"]


def test_a_checkpoint_elsewhere_is_trusted_by_its_batch_number(path: Path) -> None:
    writer = plan_stream("value string", path=path, topic="t", checkpointLocation="hdfs://cluster/checkpoint")
    part = run_task(writer, "value string", {"value": ["a"]}, QUERY)
    for _ in range(2):
        writer.commit([part], 0)

    assert payloads(path) == ["a"]


def test_a_version_is_written_once(path: Path) -> None:
    for version in (3, 3, 7):
        append("value string", {"value": [f"v{version}"]}, path=path, topic="t", txnAppId="load", txnVersion=version)

    assert payloads(path) == ["v3", "v7"]


def test_a_version_that_goes_back_is_refused(path: Path) -> None:
    append("value string", {"value": ["v3"]}, path=path, topic="t", txnAppId="load", txnVersion=3)

    with pytest.raises(PipelineError, match="txnVersion 2 of 'load' is older than 3"):
        append("value string", {"value": ["v2"]}, path=path, topic="t", txnAppId="load", txnVersion=2)
    assert payloads(path) == ["v3"]


def test_without_a_version_each_write_is_another_append(path: Path) -> None:
    for _ in range(2):
        append("value string", {"value": ["a"]}, path=path, topic="t")

    assert payloads(path) == ["a", "a"]


def test_a_batch_write_under_the_name_of_a_query_is_refused(path: Path, checkpoint: FakeCheckpoint) -> None:
    run_batch(path, checkpoint, 0, ["a"], txnAppId="copy")

    with pytest.raises(PipelineError, match="'copy' is a streaming query"):
        append("value string", {"value": ["b"]}, path=path, topic="t", txnAppId="copy", txnVersion=1)
    assert payloads(path) == ["a"]


def test_a_query_under_the_name_of_a_batch_write_is_refused(path: Path, checkpoint: FakeCheckpoint) -> None:
    append("value string", {"value": ["a"]}, path=path, topic="t", txnAppId="copy", txnVersion=0)

    with pytest.raises(PipelineError, match="'copy' by another query"):
        run_batch(path, checkpoint, 1, ["b"], txnAppId="copy")
    assert payloads(path) == ["a"]
