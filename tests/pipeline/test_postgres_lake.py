"""The jobs of a project on Postgres: the same code, another address."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import brant
from brant.pipeline import archive, compact, replay, report, run, sql, status
from brant.pipeline.project import Archive, Gold, Project, Silver
from brant.pipeline.runner import Watcher
from tests.pipeline.hooks import Receiver
from tests.pipeline.test_postgres_source import open_transaction, publish_at_random
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 'SELECT "offset", topic, key, payload, created_at FROM brant._honker_stream'

TOLD = """
SELECT
    (SELECT sum(total) FROM gold.revenue) AS revenue,
    (SELECT count(*) FROM live.stream) - (SELECT count(*) FROM bronze.events) AS missing,
    (SELECT count(*) FROM bronze.deliveries) AS deliveries,
    (SELECT sum(dead) FROM gold.queues WHERE queue = 'mail') AS dead
"""


def project_on(address: str, folder: Path, **settings: Any) -> Project:
    return Project(str(folder), database=address, lake=str(folder / "lake"), **settings)


def in_database(address: str) -> Counter[tuple[Any, ...]]:
    with psycopg.connect(address) as connection:
        rows = connection.execute(EVENTS).fetchall()
    return Counter((*row[:4], dt.datetime.fromtimestamp(row[4], dt.UTC).date().isoformat()) for row in rows)


def by_duckdb(project: Project) -> Counter[tuple[Any, ...]]:
    statement = """
        SELECT "offset", topic, key, payload, date::varchar
        FROM read_parquet(?, hive_partitioning = true, hive_types = {topic: varchar, date: date, batch: varchar})
    """
    return Counter(duckdb.execute(statement, [f"{project.lake}/bronze/events/**/*.parquet"]).fetchall())


def by_pyarrow(project: Project) -> Counter[tuple[Any, ...]]:
    parts = [("topic", pa.string()), ("date", pa.string()), ("batch", pa.string())]
    folders = ds.partitioning(pa.schema(parts), flavor="hive")
    rows = ds.dataset(f"{project.lake}/bronze/events", partitioning=folders).to_table().to_pylist()
    return Counter((row["offset"], row["topic"], row["key"], row["payload"], row["date"]) for row in rows)


def assert_same(project: Project, wanted: Counter[tuple[Any, ...]]) -> None:
    assert by_duckdb(project) == wanted
    assert by_pyarrow(project) == wanted


@pytest.mark.guarantee("G26")
def test_a_query_that_runs_beside_writers_of_mixed_transactions_archives_all_of_them_once(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    """Each writer commits all the while, in transactions that are short or long, or rolled back."""
    project = project_on(address, tmp_path, archive=Archive(max_events_per_batch=100))
    writers = [in_thread(publish_at_random, address, number) for number in range(4)]
    until_written = Watcher(stop_requested=lambda: all(writer.done() for writer in writers))
    archive(spark, project, watcher=until_written, every_s=0.1)
    committed = [payload for writer in writers for payload in writer.result(PATIENCE_S)]
    archive(spark, project)
    wanted = in_database(address)
    assert Counter(row[3] for row in wanted.elements()) == Counter(committed)
    assert_same(project, wanted)
    assert next(query.lag for query in status(project).queries if query.query == "archive") == 0


@pytest.mark.guarantee("G27")
def test_prune_leaves_what_is_not_archived_or_not_passed_by_a_consumer(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    project = project_on(address, tmp_path)
    with brant.open(address) as db:
        db.stream("orders").publish_many(range(10))
        db.stream("users").publish_many(range(10))
        db.stream("orders").save_offset("slow", 4)
        everything = in_database(address)
        with open_transaction(address) as late:
            db.stream("users").publish("late", tx=late)
            db.stream("users").publish("behind it")
            assert sum(archive(spark, project, prune=True).values()) == 14
        left = {(topic, payload) for _, topic, _, payload, _ in in_database(address)}
        assert left == {*(("orders", str(n)) for n in range(4, 10)), ("users", '"late"'), ("users", '"behind it"')}
        assert_same(project, everything)
        everything |= in_database(address)
        assert sum(archive(spark, project, prune=True).values()) == 2
        assert_same(project, everything)


@pytest.mark.timeout(600)
@pytest.mark.skipif("BRANT_DRIVER_KILLS" not in os.environ, reason="takes long; make test-slow runs it")
def test_a_project_runs_from_bronze_to_the_report_and_back(spark: SparkSession, address: str, tmp_path: Path) -> None:
    project = project_on(
        address,
        tmp_path,
        silver=(Silver("orders", "orders", schema="id BIGINT, total DOUBLE"),),
        gold=(
            Gold(
                "revenue", ("silver.orders",), sql="SELECT date, sum(total) AS total FROM silver.orders GROUP BY date"
            ),
        ),
    )
    receiver = Receiver(address)
    hooks = receiver.endpoint()
    receiver.send(hooks, '{"n": 1}')
    receiver.work()
    receiver.close()
    with brant.open(address) as db:
        db.stream("orders").publish_many([{"id": n, "total": 1.5} for n in range(10)])
        queue = db.queue("mail")
        queue.record_events()
        queue.enqueue(1)
        job = queue.claim_one("w")
        assert job is not None
        job.fail("SMTP error 421")

    run(spark, project)
    (found,) = sql(spark, project, TOLD).collect()
    assert found.asDict() == {"revenue": 15.0, "missing": 0, "deliveries": 1, "dead": 1}
    page = Path(report(project, str(tmp_path / "report.html"))).read_text()
    assert "postgresql://" in page

    for _ in range(2):
        done = replay(spark, project, "orders", to="queue:again", where="offset > 0", id="once")
        assert (done.events, done.is_finished) == (10, True)
    with brant.open(address) as db:
        assert db.queue("again").stats().pending == 10
    compact(project)
    lags = {query.query: query.lag for query in status(project).queries}
    assert (lags["archive"], lags["archive-deliveries"]) == (0, 0)
    kept = json.loads((tmp_path / "lake" / "_brant" / "replays" / "once.json").read_text())
    assert kept["asked"]["database"].startswith("postgresql://postgres@")
