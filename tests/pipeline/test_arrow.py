"""Pages of rows as Arrow: bounded in rows and bytes, short reads that hold up nobody."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import brant
from brant.pipeline.arrow import AdbcEngine, Request, SqliteEngine, is_open_here, open_for_pages, read_extent
from brant.pipeline.extents import Extent
from brant.pipeline.tables import TABLES
from tests.waiting import line_of, python

MakeEvents = Callable[..., Path]
ENGINES = ["adbc", "sqlite3"]
SCHEMA = pa.schema([("offset", pa.int64()), ("payload", pa.string())])


def batches(path: Path, last: int, **how: object) -> list[pa.RecordBatch]:
    request = Request(TABLES["stream"], SCHEMA, **how)  # type: ignore[arg-type]
    return list(read_extent(request, Extent("app", str(path), 0, last)))


def contents(found: list[pa.RecordBatch]) -> list[tuple[int, str]]:
    return [(row["offset"], row["payload"]) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("engine", ENGINES)
def test_pages_have_the_rows_asked_for(make_events: MakeEvents, engine: str) -> None:
    found = batches(make_events(t=range(10)), 10, fetch_size=4, engine=engine)
    assert [batch.num_rows for batch in found] == [4, 4, 2]
    assert contents(found) == [(n + 1, str(n)) for n in range(10)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sizes", [[500] * 40, [5] * 40, [5, 5, 5, 3000] * 10, [3000] + [5] * 39, [900, 10] * 20])
def test_large_payloads_come_whole_and_in_order_within_the_cap(
    make_events: MakeEvents, engine: str, sizes: list[int]
) -> None:
    path = make_events(t=["x" * size for size in sizes])
    found = batches(path, 40, fetch_size=16, batch_bytes=2000, engine=engine)
    assert contents(found) == [(n + 1, f'"{"x" * size}"') for n, size in enumerate(sizes)]
    for batch in found:
        held = [len(text) for text in batch.column("payload").to_pylist()]
        assert sum(held) <= 2 * 2000 or len(held) == 1 or max(held) > 2000


@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_row_that_retention_takes_between_two_reads_is_left_out(
    make_events: MakeEvents, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    path = make_events(t=["x" * 500, "small", "y" * 500])
    kind: type[AdbcEngine | SqliteEngine] = AdbcEngine if engine == "adbc" else SqliteEngine
    fetch: Callable[..., pa.Table] = kind.fetch

    def removing(self: object, name: str, params: object) -> pa.Table:
        page = fetch(self, name, params)
        if name == "stream_page":
            other = sqlite3.connect(path)
            other.execute("DELETE FROM _honker_stream WHERE offset = 1")
            other.commit()
            other.close()
        return page

    monkeypatch.setattr(kind, "fetch", removing)
    found = batches(path, 3, fetch_size=8, batch_bytes=1000, engine=engine)
    assert [offset for offset, _ in contents(found)] == [2, 3]


def test_another_library_is_not_used_on_a_file_that_is_open_here(db: brant.Database, path: Path) -> None:
    assert is_open_here(str(path))
    with closing(open_for_pages(str(path), "adbc")) as engine:
        assert isinstance(engine, SqliteEngine)


def test_the_fast_engine_is_used_where_nothing_else_has_the_file(make_events: MakeEvents) -> None:
    path = make_events(t=[1])
    assert not is_open_here(str(path))
    with closing(open_for_pages(str(path), "auto")) as engine:
        assert isinstance(engine, AdbcEngine)
    assert not is_open_here(str(path))


def test_without_the_fast_engine_the_other_one_reads(make_events: MakeEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_events(t=[1])
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite.dbapi", None)
    assert contents(batches(path, 1)) == [(1, "1")]
    with pytest.raises(brant.BrantError, match="pip install adbc-driver-sqlite"):
        batches(path, 1, engine="adbc")


SLOW_READER = """
import sys
from tests.pipeline.reading import batch_reader
reader = batch_reader(sys.argv[1], table=sys.argv[2], engine=sys.argv[3], fetchSize=10)
(part,) = reader.partitions()
found = reader.read(part)
rows = next(found).num_rows
print("in the middle", flush=True)
sys.stdin.readline()
print(rows + sum(batch.num_rows for batch in found), flush=True)
"""


@pytest.mark.parametrize(("table", "engine"), [("stream", "adbc"), ("stream", "sqlite3"), ("queue", "auto")])
def test_a_slow_reader_blocks_no_writer_and_keeps_no_log_from_shrinking(
    db: brant.Database, path: Path, table: str, engine: str
) -> None:
    db.stream("t").publish_many(range(100))
    db.queue("q").enqueue_many(range(100))
    with python(SLOW_READER, path, table, engine) as reader:
        assert line_of(reader) == "in the middle"
        for _ in range(50):
            db.stream("t").publish("x" * 1000)
            db.queue("q").enqueue("x" * 1000)
        other = sqlite3.connect(path, timeout=0)
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert path.with_name("app.db-wal").stat().st_size == 0
        other.close()
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert line_of(reader) == "100"


HUNGRY = """
import resource, sys
from tests.pipeline.reading import batch_reader
reader = batch_reader(sys.argv[1], engine=sys.argv[2])
parts = reader.partitions()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(batch.num_rows for part in parts for batch in reader.read(part))
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, flush=True)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_stays_flat_over_payloads_of_ten_megabytes(db: brant.Database, path: Path, engine: str) -> None:
    stream = db.stream("t")
    for _ in range(30):
        stream.publish("x" * 9_000_000)
        stream.publish("small")
    with python(HUNGRY, path, engine) as reader:
        count, grown_mb = map(int, line_of(reader).split())
    assert count == 60
    assert grown_mb < 150  # all of it would be 270
