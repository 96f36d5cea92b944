"""Two hundred tenant files in one query, a part of them made while it runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import brant
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.jobs import archive
from brant.pipeline.lake import Lake
from brant.pipeline.project import Archive, Project
from brant.testing import FakeClock
from tests.pipeline.reading import Follower
from tests.waiting import in_thread

FIRST, ALL = 150, 200
LATER = 5
PATIENCE_S = 240


def events_of(number: int) -> int:
    """Tenants of many sizes; one in twenty has nothing to begin with."""
    return number % 20


def publish(folder: Path, number: int, count: int) -> None:
    with brant.open(folder / f"t{number:03}.db") as db:
        if count:
            db.stream("orders").publish_many([{"tenant": number, "n": n} for n in range(count)])


def make_tenants(folder: Path, numbers: range) -> None:
    for number in numbers:
        publish(folder, number, events_of(number))


def make_the_rest_while_others_go_on(folder: Path) -> None:
    for number in range(FIRST, ALL):
        publish(folder, number, events_of(number))
        publish(folder, number - FIRST, LATER)


def finished(query: StreamingQuery) -> None:
    """All that was there when it was called is in the lake."""
    query.processAllAvailable()


def test_the_progress_of_many_files_is_saved_now_and_then_and_at_the_end(tenants: Path, clock: FakeClock) -> None:
    def saved() -> int:
        count = 0
        for path in tenants.glob("*.db"):
            with brant.open(path, create=False) as db:
                count += db.stream("orders").get_offset("archive")
        return count

    follower = Follower(tenants, clock, consumer="archive", maxOffsetsPerTrigger=2)
    follower.next()
    follower.next()
    first = saved()
    follower.next()
    assert saved() == first
    clock.advance(60)
    follower.reader.commit(follower.position)
    assert saved() > first
    assert follower.next() == []
    assert saved() == 6


def test_two_hundred_tenants_of_which_some_come_later_are_complete(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "tenants"
    folder.mkdir()
    make_tenants(folder, range(FIRST))
    project = Project(
        folder=str(tmp_path),
        database=str(folder),
        lake=str(tmp_path / "lake"),
        archive=Archive(max_events_per_batch=700),
    )
    lake = Lake(project.lake, create=True)
    query = archive.query(spark, project, lake).start(every_s=0)
    try:
        rest = in_thread(make_the_rest_while_others_go_on, folder)
        finished(query)
        rest.result(PATIENCE_S)
        finished(query)
    finally:
        query.stop()
    assert query.exception() is None

    expected = {f"t{n:03}": events_of(n) + (LATER if n < ALL - FIRST else 0) for n in range(ALL)}
    rows = ds.dataset(lake.bronze().url, partitioning="hive").to_table(columns=["tenant", "offset"]).to_pylist()
    found = sorted((row["tenant"], row["offset"]) for row in rows)
    assert found == [(tenant, n) for tenant, count in sorted(expected.items()) for n in range(1, count + 1)]

    checkpoint = Checkpoint(lake.files, archive.QUERY)
    offsets = checkpoint.offsets(checkpoint.last_finished())
    assert {tenant: n for tenant, n in offsets.items() if n} == {tenant: n for tenant, n in expected.items() if n}
    assert checkpoint.last_finished() > 2
