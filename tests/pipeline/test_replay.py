"""Replay: events of the lake go back into a stream or a queue, each once."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import brant
from brant.pipeline import PipelineError
from brant.pipeline.jobs import archive
from brant.pipeline.jobs.compact import compact
from brant.pipeline.jobs.replay import ReplayResult, replay
from brant.pipeline.lake import Lake
from brant.pipeline.project import Archive, Project
from brant.pipeline.runner import run
from brant.testing import FakeClock
from tests.pipeline.lakes import project_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2023, 11, 14, tzinfo=UTC)
LONG = "x" * 300


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """30 orders on three days, 10 a day, and some others; in the lake, in batches of 12."""
    folder = tmp_path_factory.mktemp("replay")
    project = project_in(folder, archive=Archive(max_events_per_batch=12))
    clock = FakeClock(START)
    with brant.open(project.database, clock=clock) as db:
        for day in range(3):
            db.stream("orders").publish_many(range(day * 10, day * 10 + 10), keys=[f"k{n}" for n in range(10)])
            db.stream("users").publish({"day": day})
            db.stream(LONG).publish(day)
            clock.advance(86_400)
    run([archive.query(spark, project, Lake.of(project, create=True))])
    return project


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target.db")


def payloads(path: str, topic: str) -> list[Any]:
    with brant.open(path) as db:
        return [event.payload for event in db.stream(topic).read(limit=-1)]


def test_a_dry_run_counts_shows_a_few_and_writes_nothing(spark: SparkSession, project: Project, target: str) -> None:
    found = replay(spark, project, to="stream", database=target, dry_run=True, where="key IS NULL OR key = 'k3'")
    assert found.by_topic == {"orders": 3, "users": 3, LONG: 3}
    assert (found.events, found.written) == (9, 0)
    assert len(found.sample) == 5
    assert not Path(target).exists()


def test_events_go_into_a_stream_in_their_order(spark: SparkSession, project: Project, target: str) -> None:
    done = replay(spark, project, "orders", to="stream:again", database=target)
    assert (done.events, done.written, done.is_finished) == (30, 30, True)
    assert payloads(target, "again") == list(range(30))
    with brant.open(target) as db:
        assert db.stream("again").read(limit=2)[1].key == "k1"


def test_filter_time_and_tenant_choose_the_events_and_a_queue_takes_them(
    spark: SparkSession, project: Project, target: str
) -> None:
    since, until = "2023-11-15", datetime(2023, 11, 16, tzinfo=UTC)
    options: dict[str, Any] = {"since": since, "until": until, "tenant": "app", "database": target}
    replay(spark, project, "orders", to="queue:work", where="cast(payload AS int) % 2 = 0", **options)
    with brant.open(target) as db:
        assert [job.payload for job in db.queue("work").claim_batch("me", 100)] == [10, 12, 14, 16, 18]
    assert replay(spark, project, to="queue:work", database=target, tenant="nobody").events == 0


def test_each_event_keeps_its_topic_if_no_name_is_given(spark: SparkSession, project: Project, target: str) -> None:
    replay(spark, project, ["users", LONG], to="stream", database=target)
    assert payloads(target, LONG) == [0, 1, 2]
    assert payloads(target, "users") == [{"day": 0}, {"day": 1}, {"day": 2}]


def test_a_replay_that_was_cut_off_goes_on_by_its_id_and_repeats_nothing(
    spark: SparkSession, project: Project, target: str
) -> None:
    seen: list[ReplayResult] = []
    options: dict[str, Any] = {"to": "stream:again", "database": target, "id": "friday", "rate": 8}
    clock = FakeClock()
    timed: dict[str, Any] = {"clock": clock, "sleep": clock.advance}
    first = replay(
        spark, project, "orders", on_progress=seen.append, stop_requested=lambda: len(seen) == 3, **options, **timed
    )
    assert (first.written, first.is_finished) == (16, False)
    compact(project)  # the files are others now, the events are the same
    second = replay(spark, project, "orders", **options, **timed)
    assert (second.written_before, second.written, second.is_finished) == (16, 14, True)
    assert replay(spark, project, "orders", **options, **timed).written == 0
    assert payloads(target, "again") == list(range(30))

    with pytest.raises(PipelineError, match="'friday' was begun with another to"):
        replay(spark, project, "orders", **{**options, "to": "stream:other"})


KILLED = """
import os, pickle, signal, sys
from brant.pipeline import PipelineError, session
from brant.pipeline.jobs.replay import replay
project = pickle.loads(bytes.fromhex(sys.argv[1]))
try:
    replay(session(), project, "orders", to="stream:again", database=sys.argv[2], id="killed", rate=10)
except PipelineError:
    os.killpg(os.getpgrp(), signal.SIGKILL)
"""


def test_a_replay_whose_driver_was_killed_after_a_commit_repeats_nothing(
    spark: SparkSession, project: Project, target: str
) -> None:
    """The commit is in the target, and nobody is left who knows of it."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, pickle.dumps(project).hex(), target],
        env={**os.environ, "BRANT_FAILPOINT": "sink.after_commit:kill"},
        start_new_session=True,
        capture_output=True,
        timeout=240,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert payloads(target, "again") == list(range(10))
    second = replay(spark, project, "orders", to="stream:again", database=target, id="killed")
    assert (second.written_before, second.written) == (10, 20)
    assert payloads(target, "again") == list(range(30))


def test_no_more_events_pass_than_the_rate_allows(spark: SparkSession, project: Project, target: str) -> None:
    clock = FakeClock()
    passed: list[tuple[float, int]] = []

    def note(result: ReplayResult) -> None:
        passed.append((clock.monotonic(), result.written))

    options: dict[str, Any] = {"to": "stream:again", "database": target, "clock": clock, "sleep": clock.advance}
    replay(spark, project, "orders", rate=10, on_progress=note, **options)
    assert passed == [(0, 0), (0, 10), (1, 20), (2, 30)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"to": "topic:x"}, "must be stream:NAME, queue:NAME"),
        ({"to": "stream:x", "topics": "order"}, "no event of the topic 'order' in the lake; did you mean 'orders'"),
        ({"to": "stream:x", "where": "nothing = 1"}, "where: .*nothing"),
        ({"to": "stream:x", "where": "key ="}, "where: "),
        ({"to": "stream:x", "since": "yesterday"}, "since: 'yesterday' is no time"),
        ({"to": "stream:x", "rate": 0}, "rate must be more than 0"),
        ({"to": "stream:x", "id": "a/b"}, "no id for a replay"),
    ],
)
def test_a_wrong_request_is_one_sentence(
    spark: SparkSession, project: Project, target: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(PipelineError, match=text) as failure:
        replay(spark, project, database=target, **options)
    assert "\n" not in str(failure.value)
    assert not Path(target).exists()


def test_events_of_a_replay_that_the_lake_has_forgotten_are_not_written_again(
    spark: SparkSession, project: Project, target: str
) -> None:
    replay(spark, project, "users", to="stream:again", database=target, id="monday")
    Path(project.lake, "_brant/replays/monday.json").unlink()
    with pytest.raises(PipelineError, match="choose another id"):
        replay(spark, project, "users", to="stream:again", database=target, id="monday")
    assert len(payloads(target, "again")) == 3
