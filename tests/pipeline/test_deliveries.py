"""Bronze of the inbox: the lake agrees with the databases to the last row, for Spark, pyarrow and DuckDB alike."""

from __future__ import annotations

import logging
import threading
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
from brant.inbox import RetentionPolicy
from brant.pipeline import PipelineError, sql, stages, status
from brant.pipeline.jobs import inbox
from brant.pipeline.lake import Lake
from brant.pipeline.project import Archive, Project
from brant.pipeline.runner import Progress, Watcher, run
from tests.pipeline.hooks import DAY_S, GOOD, RETRY_SOON, SECRET, Receiver
from tests.pipeline.lakes import project_in
from tests.waiting import in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., Receiver]
DELIVERIES = """
    SELECT d.id, n.name AS endpoint, n.provider, d.event_id, d.received_at, d.event_type, d.headers_json, d.body_blob,
        d.query_json, d.signature_valid, d.signature_error, d.dedupe_key
    FROM knocker_deliveries AS d JOIN knocker_endpoints AS n ON n.id = d.endpoint_id
"""
COLUMNS = (
    "tenant", "id", "endpoint", "provider", "event_id", "received_at", "event_type", "headers", "body", "query",
    "signature_valid", "signature_error", "dedupe_key", "date",
)  # fmt: skip
ATTEMPTS = """
    SELECT a.id, a.event_id, n.name AS endpoint, e.received_at, a.attempted_at, a.outcome, a.error, a.duration_ms
    FROM knocker_attempts AS a JOIN knocker_events AS e ON e.id = a.event_id
    JOIN knocker_endpoints AS n ON n.id = e.endpoint_id
"""
LONG = "é" * 300


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Make]:
    made: list[Receiver] = []

    def make(name: str = "app.db", **options: Any) -> Receiver:
        made.append(Receiver(tmp_path / name, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def archive(spark: SparkSession, project: Project, **options: Any) -> Lake:
    stages.archive(spark, project, **options)
    return Lake.of(project)


def take(spark: SparkSession, project: Project) -> Lake:
    """The inbox alone."""
    lake = Lake.of(project, create=True)
    run(inbox.queries(spark, project, lake))
    return lake


def _moment(value: int | datetime) -> datetime:
    return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else value.astimezone(UTC)


def in_databases(*receivers: Receiver) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for each in receivers:
        for row in each.db.query(DELIVERIES):
            at = _moment(row["received_at"])
            values = [at if name == "received_at" else value for name, value in row.items()]
            found[(Path(each.path).stem, *values, at.date().isoformat())] += 1
    return found


def by_pyarrow(lake: Lake) -> Counter[tuple[Any, ...]]:
    folders = ds.partitioning(
        pa.schema([("endpoint", pa.string()), ("date", pa.string()), ("batch", pa.string())]), flavor="hive"
    )
    rows = ds.dataset(lake.table("bronze/deliveries").url, partitioning=folders).to_table().to_pylist()
    return Counter(
        tuple(row["long_endpoint"] or row["endpoint"] if name == "endpoint" else row[name] for name in COLUMNS)
        for row in rows
    )


def by_duckdb(lake: Lake) -> Counter[tuple[Any, ...]]:
    chosen = ", ".join(
        {
            "endpoint": "coalesce(long_endpoint, endpoint)",
            "date": "date::varchar",
            "received_at": "epoch(received_at)::bigint",
        }.get(name, name)
        for name in COLUMNS
    )
    statement = f"SELECT {chosen} FROM read_parquet(?, hive_partitioning = true, hive_types_autocast = false)"
    files = f"{lake.table('bronze/deliveries').url}/**/*.parquet"
    place = COLUMNS.index("received_at")
    rows = duckdb.execute(statement, [files]).fetchall()
    return Counter((*row[:place], _moment(row[place]), *row[place + 1 :]) for row in rows)


def by_spark(spark: SparkSession, project: Project) -> Counter[tuple[Any, ...]]:
    chosen = ", ".join("CAST(date AS STRING)" if name == "date" else name for name in COLUMNS)
    rows = sql(spark, project, f"SELECT {chosen} FROM bronze.deliveries").toArrow().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def test_every_delivery_and_attempt_is_in_the_lake_once_and_secrets_are_not(
    spark: SparkSession, tmp_path: Path, receiver: Make
) -> None:
    ann, bob = receiver("tenants/ann.db"), receiver("tenants/bob.db")
    with brant.open(tmp_path / "tenants" / "cy.db") as db:
        db.stream("orders").publish("no inbox here")
    shop, long = ann.endpoint("007", retry=RETRY_SOON), ann.endpoint(LONG, provider=None, secrets=None, verify="none")
    ann.failing = {"twice", "ever"}
    for body in ("first", b"\xff\x00\xfe", "", "twice", "first", b"x" * 600_000):
        ann.send(shop, body)
    ann.send(shop, "forged", valid=False)
    ann.clock.advance(DAY_S)
    ann.send(long, "from anybody")
    ann.work()
    bob.send(bob.endpoint(), "first")
    project = replace(project_in(tmp_path, archive=Archive(max_events_per_batch=5)), database=str(tmp_path / "tenants"))

    lake = take(spark, project)
    table = lake.table("bronze/deliveries")
    assert table.log.last_complete() >= 1
    expected = in_databases(ann, bob)
    assert sum(expected.values()) == 9
    assert by_pyarrow(lake) == by_duckdb(lake) == by_spark(spark, project) == expected
    assert sql(spark, project, "SELECT id FROM bronze.deliveries WHERE duplicate = 1").collect() == [(5,)]
    stored = sql(spark, project, "SELECT concat_ws(' ', collect_list(headers)) AS all FROM bronze.deliveries").collect()
    assert SECRET not in stored[0]["all"]
    assert "[redacted]" in stored[0]["all"]

    numbers = table.log.numbers()
    take(spark, project)  # nothing new
    assert table.log.numbers() == numbers
    ann.clock.advance(60)
    ann.work()
    ann.send(shop, "late")
    take(spark, project)
    assert table.log.read(numbers[-1] + 1).rows == 1
    assert by_pyarrow(lake) == in_databases(ann, bob)
    rows = sql(
        spark,
        project,
        "SELECT id, event_id, endpoint, received_at, attempted_at, outcome, error, duration_ms FROM bronze.attempts",
    )
    attempts = [
        tuple(_moment(value) if name.endswith("_at") else value for name, value in row.items())
        for row in ann.db.query(ATTEMPTS)
    ]
    assert Counter(tuple(row.values()) for row in rows.toArrow().to_pylist()) == Counter(attempts)
    assert {row[5] for row in attempts} == {"handled", "failed", "dead"}


def test_without_an_inbox_nothing_is_made_or_told(spark: SparkSession, tmp_path: Path) -> None:
    project = project_in(tmp_path)
    with brant.open(project.database) as db:
        db.stream("orders").publish(1)
    told: list[Progress] = []
    stages.run(spark, project, watcher=Watcher(told.append))
    assert {progress.name for progress in told} == {"archive", "metrics"}
    assert sorted(Lake.of(project).files.names("_checkpoints")) == ["archive", "metrics"]
    assert [query.query for query in status(project).queries] == ["archive", "metrics"]
    assert [table.name for table in Lake.of(project).tables()] == ["bronze/events", "gold/topics"]


def test_an_inbox_that_is_made_while_the_archive_runs_is_taken_too(
    spark: SparkSession, tmp_path: Path, receiver: Make
) -> None:
    project = project_in(tmp_path)
    brant.open(project.database).close()
    is_archived, is_taken, stop = threading.Event(), threading.Event(), threading.Event()
    seen = {"archive": is_archived, "archive-deliveries": is_taken}

    def told(progress: Progress) -> None:
        assert progress.rows, "nobody is told of nothing"
        seen[progress.name].set()

    running = in_thread(stages.archive, spark, project, watcher=Watcher(told, stop.is_set), every_s=0.2)
    try:
        with brant.open(project.database) as db:
            db.stream("orders").publish(1)
        assert is_archived.wait(60)
        hooks = receiver()
        hooks.send(hooks.endpoint(), "first")
        assert is_taken.wait(60)
    finally:
        stop.set()
    running.result(60)
    assert by_pyarrow(Lake.of(project)) == in_databases(hooks)


def test_what_retention_takes_is_counted_and_what_it_erases_stays_in_the_lake(
    spark: SparkSession, tmp_path: Path, receiver: Make, caplog: pytest.LogCaptureFixture
) -> None:
    project, hooks = project_in(tmp_path), receiver()
    shop = hooks.endpoint(max_orphans=2)
    hooks.db.stream("orders").publish("an event")
    hooks.send(shop, "first")
    hooks.work()
    lake = archive(spark, project)
    before = in_databases(hooks)

    hooks.clock.advance(10)
    assert hooks.inbox.retain(RetentionPolicy(content_s={"handled": 1})).contents_erased == 1
    for guess in range(5):  # the endpoint keeps two of these: three are gone before anybody could archive them
        hooks.send(shop, f"guess {guess}", valid=False)
    with caplog.at_level(logging.WARNING, "brant.pipeline"):
        archive(spark, project, prune=True)
    assert [record.getMessage() for record in caplog.records] == [
        "archive-deliveries: the inbox's retention removed 3 deliveries before they were archived"
    ]
    found = {query.query: query for query in status(project).queries}
    assert found["archive-deliveries"].counts == {"lost": 3}
    assert (found["archive-deliveries"].rows, found["archive-deliveries"].lag) == (3, 0)
    assert before <= by_pyarrow(lake), "as it was before it was erased"
    assert hooks.db.query("SELECT count(*) AS n FROM _honker_stream") == [{"n": 0}]
    assert hooks.db.query("SELECT count(*) AS n FROM knocker_deliveries") == [{"n": 3}], (
        "--prune leaves the inbox alone"
    )


def test_an_older_copy_of_the_file_is_refused(spark: SparkSession, tmp_path: Path, receiver: Make) -> None:
    project, hooks = project_in(tmp_path), receiver()
    shop = hooks.endpoint()
    hooks.send(shop, "first")
    hooks.send(shop, "second")
    archive(spark, project)
    hooks.close()
    for name in ("", "-wal", "-shm"):
        Path(f"{hooks.path}{name}").unlink(missing_ok=True)
    older = receiver()
    older.endpoint().receive(b"of another life", GOOD)
    with pytest.raises(
        PipelineError, match="ends at 1 of its deliveries, and was archived up to 2: it is an older copy"
    ):
        archive(spark, project)
