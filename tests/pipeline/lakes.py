"""Tables of a lake without a JVM: batches staged by pyarrow, and read as other programs read them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import parquet as pq
from pyspark.sql import types

from brant.pipeline.lake import Batch, Lake, LakeTable
from brant.pipeline.lake.source import LakeStreamReader
from brant.pipeline.project import Project

QUERY = "the-query"
OLD, OLDER = "2020-01-02", "2020-01-01"
SCHEMA = pa.schema(
    [("offset", pa.int64()), ("key", pa.string()), ("payload", pa.string()), ("created_at", pa.timestamp("us", "UTC"))]
)
READ_SCHEMA = types.StructType(
    [
        types.StructField("offset", types.LongType()),
        types.StructField("payload", types.StringType()),
        types.StructField("topic", types.StringType()),
        types.StructField("date", types.DateType()),
    ]
)


def project_in(folder: Path, **settings: Any) -> Project:
    return Project(str(folder), database=str(folder / "app.db"), lake=str(folder / "lake"), **settings)


def lake_in(folder: Path, kind: str = "parquet") -> Lake:
    return Lake(str(folder / "lake"), create=True, format=kind)


def rows_of(offsets: Sequence[int], schema: pa.Schema = SCHEMA) -> pa.Table:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    rows = [{"offset": n, "payload": f'{{"n": {n}}}', "created_at": moment} for n in offsets]
    return pa.Table.from_pylist(rows, schema=schema)


def stage(table: LakeTable, number: int, folders: dict[str, pa.Table]) -> None:
    """As Spark leaves them: `topic=.../date=...` and files with names of their own."""
    staging = Path(table.files.local(table.stage(number)))
    for place, (folder, rows) in enumerate(folders.items()):
        (staging / folder).mkdir(parents=True)
        pq.write_table(rows, staging / folder / f"part-{place:05}-{os.urandom(8).hex()}.parquet", compression="zstd")


def land(
    table: LakeTable, number: int, offsets: Sequence[int], date: str = OLD, topic: str = "orders", **options: Any
) -> Batch:
    stage(table, number, {f"topic={quote(topic, safe='')}/date={date}": rows_of(offsets)})
    return table.land(number, options.pop("query", QUERY), **options)


def by_pyarrow(table: LakeTable) -> list[int]:
    return sorted(ds.dataset(table.url, partitioning="hive").to_table(columns=["offset"]).column(0).to_pylist())


def by_duckdb(table: LakeTable) -> list[int]:
    files = f"{table.url}/**/*.parquet"
    found = duckdb.execute('SELECT "offset" FROM read_parquet(?, hive_partitioning = true)', [files])
    return sorted(row[0] for row in found.fetchall())


def by_stream(table: LakeTable, after: int = -1, batches_at_once: int = 0) -> list[int]:
    """What a streaming query that starts now would be given."""
    reader = LakeStreamReader(table.files.root, table.name, READ_SCHEMA, batches_at_once)
    found: list[int] = []
    start = {"batch": after}
    limit = reader.getDefaultReadLimit()
    while (end := reader.latestOffset(start, limit)) != start:
        for part in reader.partitions(start, end):
            found += [row for rows in reader.read(part) for row in rows.column("offset").to_pylist()]
        start = end
    return sorted(found)


def assert_each_once(table: LakeTable, offsets: Sequence[int]) -> None:
    for read in (by_pyarrow, by_duckdb, by_stream):
        assert Counter(read(table)) == Counter(offsets), read.__name__


def die_at(point: str, program: str, *arguments: object) -> None:
    """Runs a program that is killed at this point."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "BRANT_FAILPOINT": f"{point}:kill"},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == -9, done.stderr
