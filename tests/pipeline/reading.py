"""The readers of the format `brant` without a JVM: what Spark would be given, as plain rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from brant.clock import Clock
from brant.pipeline.options import read_options
from brant.pipeline.schemas import checked_schema
from brant.pipeline.source import BatchReader, BrantDataSource, Slice
from brant.pipeline.stream_source import StreamReader

Rows = list[dict[str, Any]]
ALL = ReadAllAvailable()


def source(path: Path | str, **options: object) -> BrantDataSource:
    return BrantDataSource({"path": str(path), **{name: str(value) for name, value in options.items()}})


def batch_reader(path: Path | str, **options: object) -> BatchReader:
    found = source(path, **options)
    reader = found.reader(found.schema())
    assert isinstance(reader, BatchReader)
    return reader


def slices(path: Path | str, **options: object) -> list[Slice]:
    return [part for part in batch_reader(path, **options).partitions() if isinstance(part, Slice)]


def rows(path: Path | str, **options: object) -> Rows:
    reader = batch_reader(path, **options)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


class Follower:
    """A streaming query: asks, reads and goes on, as Spark does."""

    def __init__(self, path: Path | str, clock: Clock | None = None, **options: object) -> None:
        given = {"path": str(path), "startingOffsets": "earliest"} | {key: str(value) for key, value in options.items()}
        found = BrantDataSource(given)
        checked = read_options(given)
        self.reader = StreamReader(checked, checked_schema(found.schema(), checked), clock)
        self.position = self.reader.initialOffset()

    def next(self, limit: ReadLimit | None = None) -> Rows:
        """The rows of one batch."""
        limit = limit or self.reader.getDefaultReadLimit()
        return self.take(self.reader.latestOffset(self.position, limit))

    def take(self, end: dict[str, int]) -> Rows:
        parts = self.reader.partitions(self.position, end)
        found = [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]
        self.position = end
        return found
