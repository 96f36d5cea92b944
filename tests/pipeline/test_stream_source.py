"""`spark.readStream.format("brant")`: each row once, in batches, whatever happens to the files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import brant
from brant.pipeline import PipelineError
from brant.testing import FakeClock
from tests.pipeline.reading import ALL, Follower, Rows
from tests.waiting import write_lock_held

MakeEvents = Callable[..., Path]


def offsets(rows: Rows) -> list[int]:
    return [row["offset"] for row in rows]


def test_each_row_comes_once(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(3))
    follower = Follower(path)
    assert offsets(follower.next()) == [1, 2, 3]
    db.stream("t").publish(4)
    assert offsets(follower.next()) == [4]
    assert follower.next() == []
    assert follower.position == {"app": 4}


def test_a_new_query_begins_with_what_comes_next(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(3))
    follower = Follower(path, startingOffsets="latest")
    db.stream("t").publish(4)
    assert offsets(follower.next()) == [4]


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"startingOffsets": "3"}, 2),
        ({"startingOffsets": '{"app": 2}'}, 1),
        ({"startingOffsets": '{"app": -1}'}, 3),
        ({"startingOffsets": "0"}, 0),
    ],
)
def test_a_new_query_begins_where_it_is_told(
    db: brant.Database, path: Path, options: dict[str, str], start: int
) -> None:
    db.stream("t").publish_many(range(3))
    assert Follower(path, None, **options).position == {"app": start}


def test_nothing_new_leaves_the_position_as_it_is(db: brant.Database, path: Path) -> None:
    follower = Follower(path)
    assert follower.reader.latestOffset(follower.position, ALL) == follower.position == {"app": 0}
    assert follower.reader.partitions(follower.position, follower.position) == []


def test_a_limit_takes_so_many_rows(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(10))
    follower = Follower(path, maxOffsetsPerTrigger=4)
    assert [len(follower.next()) for _ in range(4)] == [4, 4, 2, 0]


@pytest.mark.parametrize("topics", ["a", "a,b"])
def test_a_limit_counts_the_rows_of_the_topics_that_are_read(db: brant.Database, path: Path, topics: str) -> None:
    for number in range(10):
        db.stream("other").publish_many(range(50))
        db.stream("ab"[number % 2]).publish(number)
    follower = Follower(path, subscribe=topics, maxOffsetsPerTrigger=3)
    counts = [len(follower.next()) for _ in range(5)]
    assert counts == {"a": [3, 2, 0, 0, 0], "a,b": [3, 3, 3, 1, 0]}[topics]


def test_a_limit_is_split_in_proportion_to_what_waits(make_events: MakeEvents, tmp_path: Path) -> None:
    make_events("tenants/large.db", t=range(90))
    make_events("tenants/small.db", t=range(10))
    follower = Follower(tmp_path / "tenants", maxOffsetsPerTrigger=20)
    follower.next()
    assert follower.position == {"large": 18, "small": 2}


def test_a_run_with_an_end_takes_nothing_that_came_later(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(5))
    follower = Follower(path, maxOffsetsPerTrigger=2)
    follower.reader.prepareForTriggerAvailableNow()
    db.stream("t").publish_many(range(5))
    assert [offsets(follower.next()) for _ in range(4)] == [[1, 2], [3, 4], [5], []]


def test_a_run_with_an_end_leaves_files_that_came_later(make_events: MakeEvents, tenants: Path) -> None:
    follower = Follower(tenants)
    follower.reader.prepareForTriggerAvailableNow()
    make_events("tenants/dee.db", orders=[1])
    assert len(follower.next()) == 6
    assert follower.next() == []


def test_few_rows_are_waited_for(timed: brant.Database, clock: FakeClock, path: Path) -> None:
    follower = Follower(path, clock, minOffsetsPerTrigger=3, maxTriggerDelay="1m")
    timed.stream("t").publish(1)
    assert follower.next() == []
    timed.stream("t").publish_many([2, 3])
    assert offsets(follower.next()) == [1, 2, 3]
    timed.stream("t").publish(4)
    assert follower.next() == []
    clock.advance(61)
    assert offsets(follower.next()) == [4]


def test_a_run_with_an_end_waits_for_no_more_rows(db: brant.Database, path: Path) -> None:
    db.stream("t").publish(1)
    follower = Follower(path, minOffsetsPerTrigger=100)
    follower.reader.prepareForTriggerAvailableNow()
    assert offsets(follower.next()) == [1]


def test_the_newest_offsets_are_reported(tenants: Path) -> None:
    assert Follower(tenants).reader.reportLatestOffset() == {"ann": 3, "bob": 2, "cy": 1}


def test_a_limit_of_the_query_is_the_default(db: brant.Database, path: Path) -> None:
    assert Follower(path, maxOffsetsPerTrigger=7).reader.getDefaultReadLimit() == ReadMaxRows(7)


def test_new_files_are_read_from_their_start(make_events: MakeEvents, tenants: Path) -> None:
    follower = Follower(tenants, startingOffsets="latest")
    make_events("tenants/dee.db", orders=[1, 2])
    assert [(row["tenant"], row["offset"]) for row in follower.next()] == [("dee", 1), ("dee", 2)]
    assert follower.position == {"ann": 3, "bob": 2, "cy": 1, "dee": 2}


def test_a_file_that_is_just_being_made_is_waited_for(make_events: MakeEvents, tenants: Path) -> None:
    follower = Follower(tenants)
    follower.next()
    (tenants / "dee.db").touch()
    assert follower.next() == []
    (tenants / "dee.db").unlink()
    make_events("tenants/dee.db", orders=[1])
    assert [row["tenant"] for row in follower.next()] == ["dee"]


def test_an_idle_file_is_not_looked_into_until_it_is_written_to(
    make_events: MakeEvents, tenants: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in tenants.iterdir():
        os.utime(file, (1_600_000_000, 1_600_000_000))
    follower = Follower(tenants)
    looked: list[str] = []
    look = follower.reader._planner.open

    def told(path: str) -> object:
        looked.append(Path(path).stem)
        return look(path)

    monkeypatch.setattr(follower.reader._planner, "open", told)
    follower.next()
    looked.clear()
    assert follower.next() == []
    assert looked == []
    make_events("tenants/bob.db", orders=[3])
    assert [(row["tenant"], row["offset"]) for row in follower.next()] == [("bob", 3)]
    assert set(looked) == {"bob"}


def test_an_empty_folder_is_waited_for(make_events: MakeEvents, tmp_path: Path) -> None:
    (tmp_path / "tenants").mkdir()
    follower = Follower(tmp_path / "tenants")
    assert follower.next() == []
    make_events("tenants/ann.db", orders=[1])
    assert len(follower.next()) == 1


def test_a_file_that_vanished_is_told(tenants: Path) -> None:
    follower = Follower(tenants)
    follower.next()
    (tenants / "bob.db").unlink()
    with pytest.raises(PipelineError, match="data loss: the file of the tenant 'bob' is gone"):
        follower.next()


def test_a_file_that_vanished_can_be_done_without(make_events: MakeEvents, tenants: Path) -> None:
    follower = Follower(tenants, failOnDataLoss="false")
    follower.next()
    (tenants / "bob.db").unlink()
    make_events("tenants/cy.db", orders=[1])
    assert [row["tenant"] for row in follower.next()] == ["cy"]
    assert follower.position == {"ann": 3, "bob": 2, "cy": 2}


def test_retention_ahead_of_the_reader_is_told(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(10))
    follower = Follower(path, maxOffsetsPerTrigger=2)
    follower.next()
    db.stream("t").prune(keep=3)
    with pytest.raises(
        PipelineError, match=r"data loss in .*app\.db: events 3 to 7 were removed before they were read"
    ):
        follower.next()


@pytest.mark.parametrize("keep", [3, 0])
def test_retention_ahead_of_the_reader_can_be_passed(db: brant.Database, path: Path, keep: int) -> None:
    db.stream("t").publish_many(range(10))
    follower = Follower(path, maxOffsetsPerTrigger=2, failOnDataLoss="false")
    follower.next()
    db.stream("t").prune(keep=keep)
    found = [offset for _ in range(6) for offset in offsets(follower.next())]
    assert found == [8, 9, 10][:keep]


def test_a_replay_of_rows_that_are_gone_is_told(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(10))
    follower = Follower(path)
    db.stream("t").prune(keep=0)
    with pytest.raises(PipelineError, match="events 1 to 10 were removed"):
        follower.reader.partitions({"app": 0}, {"app": 5})


def test_retention_behind_the_reader_is_no_loss(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(10))
    follower = Follower(path)
    follower.next()
    db.stream("t").prune(keep=0)
    assert follower.next() == []
    db.stream("t").publish(11)
    assert offsets(follower.next()) == [11]


def test_retention_of_another_topic_is_no_loss(db: brant.Database, path: Path) -> None:
    db.stream("mine").publish_many(range(3))
    follower = Follower(path, subscribe="mine")
    follower.next()
    db.stream("other").publish_many(range(10))
    db.stream("mine").publish(1)
    db.stream("other").prune(keep=0)
    assert offsets(follower.next()) == [14]


def test_retention_of_the_topic_itself_is_told(db: brant.Database, path: Path) -> None:
    db.stream("mine").publish_many(range(3))
    follower = Follower(path, subscribe="mine")
    follower.next()
    db.stream("mine").publish_many(range(5))
    db.stream("mine").prune(keep=2)
    with pytest.raises(PipelineError, match="events 4 to 6 were removed"):
        follower.next()


def test_a_gap_from_before_the_query_is_no_loss(db: brant.Database, path: Path) -> None:
    db.stream("a").publish_many(range(3))
    db.stream("b").publish_many(range(3))
    db.stream("a").publish_many(range(3))
    db.stream("b").prune(keep=0)
    assert offsets(Follower(path).next()) == [1, 2, 3, 7, 8, 9]
    assert offsets(Follower(path, subscribe="a,b").next()) == [1, 2, 3, 7, 8, 9]


@pytest.mark.parametrize("fails", [True, False])
def test_a_file_put_back_from_a_backup_is_told(db: brant.Database, path: Path, tmp_path: Path, fails: bool) -> None:
    db.stream("t").publish_many(range(3))
    db.close()
    shutil.copy(path, tmp_path / "backup")
    with brant.open(path) as again:
        again.stream("t").publish_many(range(4))
        follower = Follower(path, failOnDataLoss=str(fails).lower())
        follower.next()
    shutil.copy(tmp_path / "backup", path)
    if fails:
        with pytest.raises(PipelineError, match="it ends at 3 but was read up to 7: is it an older copy"):
            follower.next()
    else:
        assert follower.next() == []
        assert follower.position == {"app": 7}


@pytest.mark.parametrize("option", ["consumer", "groupId"])
def test_progress_is_saved_as_a_named_consumers(db: brant.Database, path: Path, option: str) -> None:
    db.stream("a").publish_many(range(3))
    db.stream("b").publish(1)
    follower = Follower(path, None, **{option: "spark", "maxOffsetsPerTrigger": "3"})
    follower.next()
    assert db.stream("a").get_offset("spark") == 0
    follower.next()
    assert (db.stream("a").get_offset("spark"), db.stream("b").get_offset("spark")) == (3, 3)
    follower.next()
    assert (db.stream("a").get_offset("spark"), db.stream("b").get_offset("spark")) == (4, 4)


def test_only_the_topics_that_are_read_get_a_consumer(db: brant.Database, path: Path) -> None:
    for topic in ("a", "b"):
        db.stream(topic).publish(1)
    follower = Follower(path, subscribe="b", consumer="spark")
    follower.next()
    follower.next()
    assert db.stream("a").consumers() == []
    assert [consumer.lag for consumer in db.stream("b").consumers()] == [0]


def test_retention_waits_for_the_consumer_from_its_first_look_on(db: brant.Database, path: Path) -> None:
    db.stream("t").publish_many(range(5))
    follower = Follower(path, consumer="spark", maxOffsetsPerTrigger=2)
    follower.next()
    assert db.stream("t").prune(keep=0) == 0
    assert offsets(follower.next()) == [3, 4]
    assert db.stream("t").prune(keep=0) == 2


def test_a_consumer_that_cannot_be_saved_does_not_stop_the_query(
    db: brant.Database, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("brant.pipeline.stream_source._SAVE_PATIENCE_MS", 1)
    db.stream("t").publish_many(range(3))
    follower = Follower(path, consumer="spark")
    with write_lock_held(path):
        assert offsets(follower.next()) == [1, 2, 3]
    assert "the progress of the consumer 'spark' was not saved" in caplog.text
    assert db.stream("t").consumers() == []
    follower.next()
    assert db.stream("t").get_offset("spark") == 3


def test_notifications_can_be_followed(db: brant.Database, path: Path) -> None:
    follower = Follower(path, table="notifications", maxOffsetsPerTrigger=2)
    for number in range(3):
        with db.transaction() as tx:
            tx.notify("a", number)
    assert [[row["payload"] for row in follower.next()] for _ in range(3)] == [["0", "1"], ["2"], []]


def test_the_life_of_jobs_can_be_followed(db: brant.Database, path: Path) -> None:
    queue = db.queue("q")
    queue.record_events()
    follower = Follower(path, table="jobs", consumer="spark")
    queue.enqueue(1)
    assert [row["event"] for row in follower.next()] == ["enqueued"]
    queue.claim_one("w")
    assert [row["event"] for row in follower.next()] == ["claimed"]
    assert [consumer.name for consumer in db.job_events().consumers()] == ["spark"]


@pytest.mark.parametrize(("error", "is_told"), [("BrokenPipeError", False), ("ValueError", True)])
def test_the_process_that_plans_a_query_says_nothing_when_spark_hangs_up(error: str, is_told: bool) -> None:
    program = f"""if True:
        import sys, types
        runner = "pyspark.sql.streaming.python_streaming_source_runner"
        sys.modules["__main__"].__spec__ = types.SimpleNamespace(name=runner)
        from brant.pipeline.hanging_up import hang_up_quietly
        hang_up_quietly()
        raise {error}
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (error in done.stderr) == is_told
