"""The format `brant` of Spark: `spark.read.format("brant")` and `spark.readStream.format("brant")`.

There is no push-down of filters on purpose: Spark 4.3 keeps the pushed filters with the DataFrame and gives wrong rows
when that is used twice. Options and the schema are pushed down instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from brant.pipeline.extents import Extent, deal, pack, slices_for
from brant.pipeline.options import Position, ReadOptions, read_options
from brant.pipeline.planning import Planner
from brant.pipeline.schemas import arrow_schema, checked_schema, default_schema, tenant_column
from brant.pipeline.tenants import Tenants

if TYPE_CHECKING:
    import pyarrow as pa

    from brant.pipeline.arrow import Request


@dataclass
class Slice(InputPartition):
    """What one task reads."""

    extents: list[Extent]


class BrantDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "brant"

    def _read_options(self) -> ReadOptions:
        return read_options(self.options)

    def schema(self) -> StructType:
        options = self._read_options()
        return default_schema(options, is_many=Tenants(options.path).is_many)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options()
        return BatchReader(options, checked_schema(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from brant.pipeline.hanging_up import hang_up_quietly
        from brant.pipeline.stream_source import StreamReader

        hang_up_quietly()
        options = self._read_options()
        return StreamReader(options, checked_schema(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from brant.pipeline.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from brant.pipeline.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


class Reading:
    """How slices are read, in batch and in stream alike: on executors, with nothing but what was planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def request(self) -> Request:
        from brant.pipeline.arrow import Request

        options = self._options
        return Request(
            table=options.table,
            schema=arrow_schema(self._schema),
            tenant_column=tenant_column(options),
            fetch_size=options.fetch_size,
            engine=options.engine,
        )

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from brant.pipeline.arrow import read_extent

        if not isinstance(partition, Slice):  # Spark's stand-in for no slices at all
            return
        request = self.request()
        for extent in partition.extents:
            yield from read_extent(request, extent)


class BatchReader(Reading, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        planner = Planner(self._options)
        if self._options.table.append_only:
            return [*map(Slice, self._ranges(planner))]
        return [*map(Slice, self._files(planner))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.batches(partition)

    def _ranges(self, planner: Planner) -> list[list[Extent]]:
        options = self._options
        starting, ending = options.starting or Position(), options.ending or Position()
        extents: list[Extent] = []
        known: set[str] = set()
        for tenant, path in self._with_table(planner):
            with planner.open(path) as shelf:
                names = planner.names_in(shelf)
                known |= planner.known_names(shelf)
                after, until = planner.start_of(tenant, shelf, starting), planner.end_of(tenant, shelf, ending)
                if starting.is_explicit(tenant):
                    planner.check_complete(path, shelf, after)
                extents += planner.extents(tenant, path, names, after, until)
        planner.require_known(known)
        return slices_of(extents, options)

    def _with_table(self, planner: Planner) -> list[tuple[str, str]]:
        """The tenants; of many, those that have the table, where they need not have it."""
        tenants = planner.tenants.found().items()
        if not self._options.table.optional or not planner.tenants.is_many:
            return [*tenants]
        return [(tenant, path) for tenant, path in tenants if planner.has_table(path)]

    def _files(self, planner: Planner) -> list[list[Extent]]:
        extents = []
        for tenant, path in self._with_table(planner):
            with planner.open(path) as shelf:
                shelf.require_tables()
                extents.append(Extent(tenant, path, only=planner.chosen(shelf)))
        return deal(extents, max(self._options.least_slices or 1, os.cpu_count() or 1))


def slices_of(extents: list[Extent], options: ReadOptions) -> list[list[Extent]]:
    rows = sum(extent.size for extent in extents)
    slices = slices_for(rows, os.cpu_count() or 1, options.least_slices)
    return pack(extents, slices, options.most_per_slice)
