"""`spark.readStream.format("brant")`: what is new in each file, batch by batch.

A position is `{"<tenant>": n}`, n being the last offset that was taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

import brant
from brant.clock import Clock
from brant.config import is_address
from brant.errors import BrantError
from brant.pipeline.errors import PipelineError
from brant.pipeline.extents import Extent, fair_shares
from brant.pipeline.options import LATEST, Position, ReadOptions
from brant.pipeline.planning import Planner
from brant.pipeline.shelf import NoTables
from brant.pipeline.source import Reading, Slice, slices_of
from brant.pipeline.tenants import Quiet

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("brant.pipeline")
_SAVE_PATIENCE_MS = 1000
_PAUSE_PER_FILE_S = 0.1

Offsets = dict[str, int]


class StreamReader(Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        super().__init__(options, schema)
        _refuse_unfit(options)
        self._clock = clock or Clock()
        self._planner = Planner(options, is_stream=True)
        self._target: Offsets | None = None
        self._saved: Offsets = {}
        self._save_again_at = 0.0
        self._quiet = Quiet()
        self._waiting_since: float | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        starting = self._options.starting or Position(everywhere=LATEST)
        tenants = self._planner.tenants
        if not tenants.is_many:
            tenants.found()
        found = {}
        for tenant, path in tenants.find().items():
            try:
                with self._planner.open(path) as shelf:
                    found[tenant] = self._planner.start_of(tenant, shelf, starting)
            except NoTables:
                if not self._options.table.optional:
                    raise
        return found

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.most_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._heads()

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        return dict(sorted(self._heads().items()))

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        # Spark asks only when all up to `start` is done: it is saved here too, since `commit` never tells of the last.
        self.commit(start)
        heads = self._heads(start)
        target = heads if self._target is None else self._target
        backlogs = {tenant: head - start.get(tenant, 0) for tenant, head in target.items()}
        backlogs = {tenant: backlog for tenant, backlog in backlogs.items() if backlog > 0 and tenant in heads}
        if not self._is_worth_it(sum(backlogs.values())):
            self._save_all(start)
            return dict(sorted(start.items()))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = {tenant: target[tenant] for tenant in backlogs}
        if most is not None and sum(backlogs.values()) > most:
            ends = self._limited(start, ends, fair_shares(backlogs, most))
        return dict(sorted((start | ends).items()))

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        extents: list[Extent] = []
        files = self._planner.tenants.find()
        for tenant, until in end.items():
            after = start.get(tenant, 0)
            if until <= after or not self._is_there(tenant, files):
                continue
            with self._planner.open(files[tenant]) as shelf:
                if tenant in start:
                    self._planner.check_complete(files[tenant], shelf, after, until)
                names = self._planner.names_in(shelf)
                extents += self._planner.extents(tenant, files[tenant], names, after, until)
        return [Slice(extents) for extents in slices_of(extents, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.batches(partition)

    def commit(self, end: Offsets) -> None:
        """Save the progress as the named consumer's. A lower bound, and never a reason for the query to fail."""
        if self._clock.monotonic() >= self._save_again_at:
            self._save_all(end)

    def stop(self) -> None:
        if is_address(self._options.path):
            from brant.pipeline.postgres import forget_kept

            forget_kept(self._options.path)

    def _save_all(self, end: Offsets) -> None:
        """Of many files not at every batch: each save is a commit, which the next batch would have to wait for."""
        if self._options.consumer is None:
            return
        files = self._planner.tenants.find()
        new = {tenant for tenant, offset in end.items() if tenant in files and self._saved.get(tenant) != offset}
        for tenant in sorted(new):
            if self._save(files[tenant], self._options.consumer, end[tenant]):
                self._saved[tenant] = end[tenant]
        if new:
            self._save_again_at = self._clock.monotonic() + (len(new) - 1) * _PAUSE_PER_FILE_S

    def _save(self, path: str, consumer: str, offset: int) -> bool:
        try:
            with self._planner.open(path) as shelf:
                names = self._planner.names_in(shelf)
                topics = shelf.names() if names is None else names
            with brant.open(path, create=False, busy_timeout_ms=_SAVE_PATIENCE_MS) as db, db.transaction() as tx:
                for topic in topics:
                    db.stream(topic).save_offset(consumer, offset, tx=tx)
        except BrantError as error:
            _log.warning("the progress of the consumer %r was not saved: %s", consumer, error)
            return False
        return True

    def _heads(self, start: Offsets | None = None) -> Offsets:
        """The newest offset of each tenant; what was read before must still be there."""
        files = self._planner.tenants.find()
        for tenant in start or ():
            self._is_there(tenant, files)
        heads = {}
        for tenant, path in files.items():
            head = self._head(path, None if start is None else start.get(tenant))
            if head:
                heads[tenant] = head
        return heads

    def _head(self, path: str, after: int | None) -> int:
        held = self._quiet.held(path)
        if held is not None and (after is None or held >= after):
            return held
        keep = self._quiet.look(path, self._clock.now())
        try:
            with self._planner.open(path) as shelf:
                if after is not None:
                    self._planner.check_complete(path, shelf, after)
                head = shelf.head(self._planner.names_in(shelf))
            keep(head)
            return head
        except NoTables:
            # A new file whose maker has not come that far, or a table that may come later.
            if not after and (self._planner.tenants.is_many or self._options.table.optional):
                return 0
            raise

    def _is_there(self, tenant: str, files: dict[str, str]) -> bool:
        if tenant in files:
            return True
        if self._options.fail_on_data_loss:
            raise PipelineError(
                f"data loss: the file of the tenant {tenant!r} is gone from {self._planner.tenants}; "
                "to go on without it set failOnDataLoss=false"
            )
        return False

    def _limited(self, start: Offsets, ends: Offsets, shares: dict[str, int]) -> Offsets:
        files = self._planner.tenants.find()
        found = {}
        for tenant, rows in shares.items():
            if rows and tenant in files:
                with self._planner.open(files[tenant]) as shelf:
                    names = self._planner.names_in(shelf)
                    found[tenant] = shelf.nth(names, start.get(tenant, 0), ends[tenant], rows)
        return found

    def _is_worth_it(self, rows: int) -> bool:
        """Enough rows, or waited for long enough; a run with an end takes what there is."""
        least = self._options.least_per_trigger
        if least is None or rows >= least or self._target is not None or not rows:
            self._waiting_since = None
            return rows > 0
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < self._options.most_trigger_delay_s:
            return False
        self._waiting_since = None
        return True


def _refuse_unfit(options: ReadOptions) -> None:
    if not options.table.append_only:
        raise PipelineError(
            f"the table {options.table.name!r} changes in place and cannot be read as a stream; use spark.read, "
            "or follow the table 'jobs'"
        )
    if options.ending is not None:
        raise PipelineError("endingOffsets and endingTimestamp are for spark.read; a stream has no end")
