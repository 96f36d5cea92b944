"""The Spark source: a batch read of two million events into an aggregate, against the raw fetch of the same rows.

Spark starts with the first turn. Spark's own JDBC source takes part where `BENCH_JDBC_JAR` names an SQLite driver, or
Debian's libxerial-sqlite-jdbc-java is installed.
"""

from __future__ import annotations

import os
import sqlite3
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import brant
from bench.measure import Case, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 2_000_000
_TOPICS = ("orders", "clicks", "mail", "audit")
_AT_ONCE = 10_000
_PAGE = 50_000
_ROUNDS = 3
_DEBIANS_JAR = "/usr/share/java/sqlite-jdbc.jar"
_JAR = os.environ.get("BENCH_JDBC_JAR") or (_DEBIANS_JAR if Path(_DEBIANS_JAR).exists() else None)
_NEEDED = ("pyspark", "pyarrow", "adbc_driver_sqlite")


class Reads:
    """One file of events, made when it is first needed, and ways to read all of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def path(self) -> Path:
        path = self._folder / "events.db"
        with brant.open(path) as db:
            for number in range(EVENTS // _AT_ONCE):
                first = number * _AT_ONCE
                payloads = [payload_of(n) for n in range(first, first + _AT_ONCE)]
                keys = [str(n % 1000) for n in range(_AT_ONCE)]
                db.stream(_TOPICS[number % len(_TOPICS)]).publish_many(payloads, keys=keys)
        return path

    @cached_property
    def spark(self) -> SparkSession:
        from brant.pipeline import session

        config = {"spark.jars": _JAR} if _JAR else {}
        return session("bench of the source", config=config)

    def prepare(self, _: int) -> None:
        """File, Spark and its compiled code are there: rates are of a warm session."""
        aggregate(self.spark.read.format("brant").option("endingOffsets", _PAGE).load(str(self.path)))

    def through_spark(self, _: int) -> None:
        aggregate(self.spark.read.format("brant").load(str(self.path)))

    def two_columns(self, _: int) -> None:
        frame = self.spark.read.format("brant").schema("offset bigint, topic string").load(str(self.path))
        _require_all(frame.groupBy("topic").count().collect())

    def through_jdbc(self, _: int) -> None:
        reader = self.spark.read.format("jdbc").option("driver", "org.sqlite.JDBC").option("fetchsize", 10_000)
        reader = reader.option("url", f"jdbc:sqlite:{self.path}").option("dbtable", "_honker_stream")
        bounds = {"partitionColumn": "offset", "lowerBound": "1", "upperBound": str(EVENTS), "numPartitions": "2"}
        aggregate(reader.options(**bounds).load())

    def by_sqlite3(self, _: int) -> None:
        connection = sqlite3.connect(self.path)
        try:
            cursor = connection.execute("SELECT offset, topic, key, payload, created_at FROM _honker_stream")
            while cursor.fetchmany(_PAGE):
                pass
        finally:
            connection.close()

    def by_adbc(self, _: int) -> None:
        import adbc_driver_sqlite.dbapi as adbc

        with adbc.connect(f"file:{self.path}?mode=ro", autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "8192"})
            cursor.execute("SELECT offset, topic, key, payload, created_at FROM _honker_stream")
            for _batch in cursor.fetch_record_batch():
                pass


def cases(folder: Path) -> list[Case]:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(f"{', '.join(missing)} not installed: the Spark source is left out")
        return []
    place = folder / "pipeline"
    place.mkdir()
    reads = Reads(place)
    peers: dict[str, Work] = {"adbc alone": reads.by_adbc}
    if _JAR:
        peers["spark jdbc"] = reads.through_jdbc
    else:
        print("BENCH_JDBC_JAR names no SQLite driver, and Debian's is not installed: Spark's JDBC source is left out")
    warm: dict[str, Work] = {"brant": reads.prepare}
    beats = ("spark jdbc",) if _JAR else ()
    return [
        Case(
            "Spark source, 2M events into an aggregate",
            EVENTS,
            reads.through_spark,
            reads.by_sqlite3,
            0.7,
            peers,
            warm,
            rounds=_ROUNDS,
            beats=beats,
        ),
        Case(
            "Spark source, two columns of 2M events",
            EVENTS,
            reads.two_columns,
            reads.by_sqlite3,
            1.5,
            prepare=warm,
            rounds=_ROUNDS,
        ),
    ]


def aggregate(frame: DataFrame) -> None:
    """Every column is used, so that none can be left out on the way; nothing that Spark would have to sort for."""
    lengths = ["length(key) AS key", "length(payload) AS payload"]
    short = frame.selectExpr("offset", "topic", *lengths, "created_at")
    short.groupBy("topic").agg({"offset": "sum", "key": "sum", "payload": "sum", "created_at": "max"}).collect()


def payload_of(n: int) -> dict[str, Any]:
    return {"id": n, "kind": "order", "amount": n % 997, "note": "a line of text of usual length for an event"}


def _require_all(rows: list[Any]) -> None:
    counted = sum(row["count"] for row in rows)
    if counted != EVENTS:
        raise RuntimeError(f"{counted} of {EVENTS} events were read")
