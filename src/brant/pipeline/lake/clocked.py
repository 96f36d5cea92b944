"""Bronze with a clock that never goes back, for what must forget with time.

Spark drops the rows that are behind a watermark without a word. With `created_at` for the watermark, one event from a
machine whose clock is years ahead would have all later ones dropped, and so would a tenant that comes late with old
events. `clock` is `created_at` as long as that goes forward, and is held between the clock of the batch before and
that of this batch otherwise: no row is ever late by it. The position of the stream carries it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from brant.pipeline.lake.files import LakeFiles
from brant.pipeline.lake.selection import folder_value
from brant.pipeline.lake.source import BRONZE_SCHEMA, LakeSource, LakeStreamReader, _File

CLOCKED_FORMAT = "brant_lake_clocked"
CLOCKED_SCHEMA = f"{BRONZE_SCHEMA}, clock timestamp"
# A table that is begun over a large lake takes it in parts.
_BATCHES_AT_ONCE = 20
_CLOCK = "clock"
_TIME = "created_at"


class ClockedLakeSource(LakeSource):
    """As `brant_lake`, of the one topic that the option `topic` names, with the column `clock`."""

    @classmethod
    def name(cls) -> str:
        return CLOCKED_FORMAT

    def schema(self) -> str:
        return CLOCKED_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return ClockedStreamReader(self._option("lake"), self._option("table"), self._option("topic"), schema)


@dataclass(frozen=True)
class _Clocked(_File):
    earliest: int
    latest: int


class ClockedStreamReader(LakeStreamReader):
    """Offsets are {"batch": n, "clock": microseconds}. Files of other topics are not opened."""

    def __init__(self, root: str, table: str, topic: str, schema: StructType) -> None:
        super().__init__(root, table, schema, _BATCHES_AT_ONCE)
        self._topic = topic

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {**super().initialOffset(), _CLOCK: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end = super().latestOffset(start, limit)
        return {**end, _CLOCK: max(start[_CLOCK], self._newest(self._files_between(start, end)))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_Clocked(path, start[_CLOCK], end[_CLOCK]) for path in self._files_between(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Clocked)  # noqa: S101, for the type checker
        for rows in super().read(partition):
            place = rows.schema.get_field_index(_CLOCK)
            yield rows.set_column(place, rows.schema.field(place), _held(rows.column(_TIME), partition))

    def _files_between(self, start: dict[str, int], end: dict[str, int]) -> list[str]:
        batches = self._log.between(start["batch"], end["batch"])
        paths = [file.path for batch in batches for file in batch.files]
        return [path for path in paths if folder_value(path, "topic") == self._topic]

    def _newest(self, paths: Sequence[str]) -> int:
        """When the newest of the events was published, as the files' footers say; the future is not believed."""
        files = LakeFiles(self._root)
        newest = 0
        for path in paths:
            with files.open(path) as opened:
                newest = max(newest, _newest_in(pq.ParquetFile(opened).metadata))
        return min(newest, int(time.time() * 1_000_000))


def _newest_in(footer: pq.FileMetaData) -> int:
    place = footer.schema.names.index(_TIME)
    found = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
    return max((_micros(each.max) for each in found if each is not None and each.has_min_max), default=0)


def _micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1_000_000)


def _held(times: pa.Array, between: _Clocked) -> pa.Array:
    micros = pc.min_element_wise(times.cast(pa.int64()), between.latest)
    return pc.max_element_wise(micros, between.earliest).cast(times.type)
