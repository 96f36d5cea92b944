"""Bronze: the lake agrees with the databases to the last row and sum, for Spark, pyarrow and DuckDB alike."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import brant
from brant.pipeline import PipelineError
from brant.pipeline.jobs import archive
from brant.pipeline.lake import Lake
from brant.pipeline.lake.source import BRONZE_SCHEMA
from brant.pipeline.project import Archive, Project
from brant.pipeline.runner import run
from brant.testing import FakeClock
from tests.pipeline.lakes import project_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD_TOPICS = ["orders", "a/b:c=d %é'\"", "007", "_brant:own", "..", "sp ace", "ü" * 200, "x" * 512]
DAY_S = 86_400


def take(spark: SparkSession, project: Project) -> Lake:
    lake = Lake.of(project, create=True)
    run([archive.query(spark, project, lake)])
    return lake


def in_databases(*paths: Path) -> list[dict[str, Any]]:
    statement = "SELECT offset, topic, key, payload, created_at FROM _honker_stream ORDER BY offset"
    found = []
    for path in paths:
        with brant.open(path) as db:
            found += [{"tenant": path.stem, **row} for row in db.query(statement)]
    return found


def by_duckdb(lake: Lake) -> list[tuple[Any, ...]]:
    statement = """
        SELECT tenant, "offset", coalesce(long_topic, topic), key, payload, date::varchar
        FROM read_parquet(?, hive_partitioning = true, hive_types = {topic: varchar, date: date, batch: varchar})
    """
    return duckdb.execute(statement, [f"{lake.bronze().url}/**/*.parquet"]).fetchall()


def by_pyarrow(lake: Lake) -> list[tuple[Any, ...]]:
    folders = ds.partitioning(
        pa.schema([("topic", pa.string()), ("date", pa.string()), ("batch", pa.string())]), flavor="hive"
    )
    rows = ds.dataset(lake.bronze().url, partitioning=folders).to_table().to_pylist()
    return [_plain(row) for row in rows]


def by_spark(lake: Lake, spark: SparkSession) -> list[tuple[Any, ...]]:
    schema = f"{BRONZE_SCHEMA}, long_topic string, batch string"
    return [_plain(row.asDict()) for row in spark.read.schema(schema).parquet(lake.bronze().url).collect()]


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    topic = row["long_topic"] or row["topic"]
    return row["tenant"], row["offset"], topic, row["key"], row["payload"], str(row["date"])


def assert_same(lake: Lake, spark: SparkSession, rows: list[dict[str, Any]]) -> None:
    wanted = Counter(
        (
            row["tenant"],
            row["offset"],
            row["topic"],
            row["key"],
            row["payload"],
            datetime.fromtimestamp(row["created_at"], UTC).date().isoformat(),
        )
        for row in rows
    )
    assert Counter(by_pyarrow(lake)) == wanted
    assert Counter(by_duckdb(lake)) == wanted
    assert Counter(by_spark(lake, spark)) == wanted


def test_every_event_is_in_the_lake_once_whatever_its_topic_and_day(spark: SparkSession, tmp_path: Path) -> None:
    project = project_in(tmp_path, archive=Archive(max_events_per_batch=7))
    path, clock = Path(project.database), FakeClock(1_700_000_000)
    with brant.open(path, clock=clock) as db:
        for _ in range(2):
            for topic in ODD_TOPICS:
                db.stream(topic).publish_many([{"text": "\x01 é \U0001f426"}, None], keys=[None, "k"])
            clock.advance(DAY_S)
    lake = take(spark, project)
    first = in_databases(path)
    assert lake.bronze().log.last_complete() >= 2
    assert_same(lake, spark, first)

    numbers = lake.bronze().log.numbers()
    take(spark, project)  # nothing new
    assert lake.bronze().log.numbers() == numbers

    with brant.open(path) as db:
        db.stream("orders").publish({"late": True})
    take(spark, project)
    assert lake.bronze().log.read(numbers[-1] + 1).rows == 1
    assert_same(lake, spark, in_databases(path))


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_driver_that_ended_while_it_wrote_down_its_first_batch_is_no_obstacle(
    spark: SparkSession, tmp_path: Path, log: str
) -> None:
    project = project_in(tmp_path)
    path = Path(project.database)
    with brant.open(path) as db:
        db.stream("orders").publish_many(range(10))
    half = tmp_path / "lake" / "_checkpoints" / archive.QUERY / log / ".0.0a2b.tmp"
    half.parent.mkdir(parents=True)
    half.write_text("v1")
    lake = take(spark, project)
    assert_same(lake, spark, in_databases(path))


@pytest.mark.guarantee("G27")
def test_prune_deletes_only_what_is_archived_and_passed_by_every_consumer(spark: SparkSession, tmp_path: Path) -> None:
    project = replace(project_in(tmp_path), database=str(tmp_path / "tenants"))
    paths = [tmp_path / "tenants" / f"{name}.db" for name in ("ann", "bob")]
    paths[0].parent.mkdir()
    for path in paths:
        with brant.open(path) as db:
            db.stream("orders").publish_many(range(10))
            db.stream("users").publish_many(range(10))
    with brant.open(paths[0]) as db:
        db.stream("orders").save_offset("slow", 4)
    lake = take(spark, project)
    everything = in_databases(*paths)
    with brant.open(paths[1]) as db:
        db.stream("orders").publish("not yet archived")

    assert archive.prune(project, lake) == {"ann": 14, "bob": 20}
    left = {(row["tenant"], row["payload"]) for row in in_databases(*paths) if row["topic"] == "orders"}
    assert left == {("ann", str(n)) for n in range(4, 10)} | {("bob", '"not yet archived"')}
    assert_same(lake, spark, everything)

    take(spark, project)
    assert archive.prune(project, lake) == {"ann": 0, "bob": 1}
    assert len(by_pyarrow(lake)) == 41


@pytest.fixture
def archived(spark: SparkSession, tmp_path: Path) -> tuple[Project, Lake, Path]:
    """A lake with two batches, and a copy of it from after the first."""
    project = project_in(tmp_path)
    with brant.open(project.database) as db:
        db.stream("orders").publish_many(range(5))
    take(spark, project)
    shutil.copytree(project.lake, tmp_path / "copy")
    with brant.open(project.database) as db:
        db.stream("orders").publish_many(range(5))
    return project, take(spark, project), tmp_path / "copy"


def test_a_lost_or_put_back_state_is_refused_and_nothing_is_pruned(
    spark: SparkSession, archived: tuple[Project, Lake, Path], tmp_path: Path
) -> None:
    project, lake, copy = archived
    rows = sorted(by_pyarrow(lake))
    checkpoint, kept = Path(lake.root, "_checkpoints"), tmp_path / "kept"

    checkpoint.rename(kept)
    with brant.open(project.database) as db:
        db.stream("orders").publish("new")
    with pytest.raises(PipelineError, match="its checkpoint was lost or replaced"):
        take(spark, project)
    assert sorted(by_pyarrow(lake)) == rows

    shutil.rmtree(checkpoint)
    shutil.copytree(copy / "_checkpoints", checkpoint)
    with pytest.raises(PipelineError, match="put back from a copy"):
        take(spark, project)
    assert sorted(by_pyarrow(lake)) == rows

    shutil.rmtree(lake.root)
    shutil.copytree(copy, lake.root)
    shutil.rmtree(checkpoint)
    kept.rename(checkpoint)
    with pytest.raises(PipelineError, match=r"put back from a copy\. Nothing was deleted"):
        archive.prune(project, lake)
    with pytest.raises(PipelineError, match="put back from a copy"):
        take(spark, project)
    assert len(in_databases(Path(project.database))) == 11


def test_prune_leaves_all_when_the_lake_has_lost_a_file_or_the_database_is_an_older_copy(
    archived: tuple[Project, Lake, Path],
) -> None:
    project, lake, _ = archived
    file = Path(lake.files.local(lake.bronze().log.read(0).files[0].path))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(PipelineError, match=r"missing or damaged. Nothing was deleted"):
        archive.prune(project, lake)
    file.write_bytes(content)

    Path(project.database).unlink()
    with brant.open(project.database) as db:
        db.stream("orders").publish_many(["of a new file"] * 3)
    with pytest.raises(PipelineError, match=r"older copy.* Nothing was deleted"):
        archive.prune(project, lake)
    assert len(in_databases(Path(project.database))) == 3


def test_a_topic_that_joins_the_list_comes_whole_and_one_that_left_stays_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = project_in(tmp_path, archive=Archive(topics=("orders",)))
    path = Path(project.database)

    def publish(*topics: str) -> None:
        with brant.open(path) as db:
            for topic in topics:
                db.stream(topic).publish_many([topic, topic])

    publish("orders", "users", "logs")
    take(spark, project)
    publish("users", "orders")
    wider = replace(project, archive=Archive(topics=("orders", "users")))
    lake = take(spark, wider)
    assert_same(lake, spark, [row for row in in_databases(path) if row["topic"] != "logs"])

    assert archive.prune(wider, lake) == {"app": 8}
    assert {row["topic"] for row in in_databases(path)} == {"logs"}

    publish("orders")
    take(spark, replace(project, archive=Archive(topics=("orders",))))
    with pytest.raises(PipelineError, match="users was taken off the list and can't come back"):
        take(spark, wider)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A file system of this size; asked again, it has the new size."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def sized(size: str) -> Path:
        nonlocal mounted
        how = ["-o", f"remount,size={size}"] if mounted else ["-t", "tmpfs", "-o", f"size={size}", "brant"]
        done = subprocess.run(["mount", *how, place], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted = True
        return place

    yield sized
    if mounted:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(
    spark: SparkSession, tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    project = replace(project_in(tmp_path), lake=str(small_disk("1m") / "lake"))
    with brant.open(project.database) as db:
        db.stream("orders").publish_many([os.urandom(50_000).hex() for _ in range(40)])
    with pytest.raises(PipelineError, match=r"^[^\n]*disk[^\n]*full[^\n]*$"):
        take(spark, project)
    small_disk("32m")
    assert_same(take(spark, project), spark, in_databases(Path(project.database)))
