"""Bronze of the inbox: every delivery and every attempt at an event in the lake, once, and the counts of rejects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyarrow import parquet as pq

from brant.config import is_address, without_password
from brant.failpoint import failpoint
from brant.pipeline.archives import BRONZE_REJECTS, OF_THE_INBOX, Archived, is_in_use, lost_in
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_of
from brant.pipeline.jobs.folders import in_folders
from brant.pipeline.jobs.recomputed import PARTITION, RecomputedTable
from brant.pipeline.lake import Lake
from brant.pipeline.lake.selection import folder_value
from brant.pipeline.project import Project
from brant.pipeline.runner import Query
from brant.pipeline.shelf import NoTables, open_shelf
from brant.pipeline.tables import TABLES
from brant.pipeline.tenants import Tenants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("brant.pipeline")
_REJECTS = (
    "tenant string, endpoint string, provider string, hour timestamp, status bigint, reason string, count bigint, "
    "last_at timestamp, date date"
)
_IDENTITY = ("tenant", "endpoint", "hour", "status", "reason")
_NO_INBOX = "has no inbox"

Reject = dict[str, Any]


def queries(spark: SparkSession, project: Project, lake: Lake, *, waiting: bool = False) -> list[Query]:
    """Those whose tables are there; with `waiting`, also for tables that may come while they run."""
    return [_query(spark, project, lake, kind) for kind in OF_THE_INBOX if waiting or _is_wanted(project, lake, kind)]


def _is_wanted(project: Project, lake: Lake, kind: Archived) -> bool:
    # Where it can't be seen from here, as on the client of a Connect server, Spark will see.
    return is_in_use(project.database, kind.source) is not False or bool(_archived(Checkpoint(lake.files, kind.query)))


def _query(spark: SparkSession, project: Project, lake: Lake, kind: Archived) -> Query:
    checkpoint = Checkpoint(lake.files, kind.query)
    _refuse_older_copies(project, checkpoint, kind)
    rows = (
        spark.readStream.format("brant")
        .options(**_options(project, kind.source.name))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", project.archive.max_events_per_batch)
        # The inbox's retention waits for nobody. What it takes too early is counted here, and no reason to stop.
        .option("failOnDataLoss", "false")
        .load()
    )
    return Query(kind.query, rows.writeStream, _Writer(project, lake, kind), checkpoint)


def _archived(checkpoint: Checkpoint) -> dict[str, int]:
    finished = checkpoint.last_finished()
    return checkpoint.offsets(finished) if finished >= 0 else {}


def _options(project: Project, table: str) -> dict[str, str]:
    return {"path": project.database, "table": table, "tenantColumn": "tenant"}


def _refuse_older_copies(project: Project, checkpoint: Checkpoint, kind: Archived) -> None:
    """A file that gives out ids again which are in the lake already: its new rows would be passed over."""
    archived = _archived(checkpoint)
    for tenant, path in Tenants(project.database).find().items():
        last = _last(path, kind) if tenant in archived else None
        if last is not None and last < archived[tenant]:
            raise PipelineError(
                f"{without_password(path)} ends at {last} of its {kind.source.name}, and was archived up to "
                f"{archived[tenant]}: it is an older copy, whose new ones would be missed. Put the newer one back, or "
                "start a new lake"
            )


def _last(path: str, kind: Archived) -> int | None:
    """None where the file can't be looked at from here."""
    try:
        return _bounds(path, kind)[1]
    except PipelineError:
        return None


def _bounds(path: str, kind: Archived) -> tuple[int | None, int]:
    try:
        with open_shelf(path, kind.source) as shelf:
            return shelf.bounds()
    except NoTables:
        return None, 0


class _Writer:
    """A function that Spark can send to its server."""

    def __init__(self, project: Project, lake: Lake, kind: Archived) -> None:
        self._database = project.database
        self._checkpoint = Checkpoint(lake.files, kind.query)
        self._table = lake.table(kind.target)
        self._kind = kind

    def __call__(self, frame: DataFrame, number: int) -> None:
        kind = self._kind
        failpoint(f"{kind.query}.before_write")
        plan = self._checkpoint.plan(number)
        rows = in_folders(frame, kind.folder, kind.moment)
        batch = self._table.write_batch(
            rows, number, self._checkpoint.query_id(), plan, expected=self._expected(number)
        )
        lost = lost_in([batch])
        if lost:
            _log.warning(
                "%s: the inbox's retention removed %s %s before they were archived", kind.query, lost, kind.source.name
            )
        failpoint(f"{kind.query}.after_write")

    def _expected(self, number: int) -> int:
        """How many rows the batch would have if none had been deleted: each id was given to one.

        Not on a server, where those of transactions that were rolled back are missing too: nobody knows.
        """
        if is_address(self._database):
            return 0
        before = self._checkpoint.offsets(number - 1) if number else {}
        files = Tenants(self._database).find()
        expected = 0
        for tenant, until in self._checkpoint.offsets(number).items():
            after = before[tenant] if tenant in before else self._begin(files.get(tenant), until)
            expected += max(0, until - after)
        return expected

    def _begin(self, path: str | None, until: int) -> int:
        """What was deleted before the archive first saw a file is no loss of the archive's."""
        first = _bounds(path, self._kind)[0] if path is not None else None
        return until if first is None else first - 1


# Rejects


def archive_rejects(spark: SparkSession, project: Project, lake: Lake) -> None:
    """Bring bronze/rejects up to what the databases count now; counts only grow, and what they delete stays."""
    if is_in_use(project.database, TABLES["rejects"]) is False:
        return
    live = _live_rejects(spark, project)
    table = RecomputedTable(lake, *reversed(BRONZE_REJECTS.split("/")))
    dates = {_date(row) for row in live}
    kept = {_identity(row): row for row in _kept_rejects(lake, table, dates)}
    newer = [row for row in live if row["count"] > kept.get(_identity(row), {"count": 0})["count"]]
    changed = {_date(row) for row in newer}
    if changed:
        merged = kept | {_identity(row): row for row in newer}
        rows = [_stored(row) for row in merged.values() if _date(row) in changed]
        table.put(spark.createDataFrame(rows, _REJECTS), changed)


def _live_rejects(spark: SparkSession, project: Project) -> list[Reject]:
    try:
        return list(spark.read.format("brant").options(**_options(project, "rejects")).load().toArrow().to_pylist())
    except Exception as error:
        if _NO_INBOX in (text := sentence_of(error)):
            return []
        raise PipelineError(text) from error


def _kept_rejects(lake: Lake, table: RecomputedTable, dates: set[str]) -> Iterator[Reject]:
    for file in table.files():
        if file.path.endswith(".parquet") and folder_value(file.path, PARTITION) in dates:
            with lake.files.open(file.path) as opened:
                yield from pq.ParquetFile(opened).read().to_pylist()


def _identity(row: Reject) -> tuple[Any, ...]:
    return tuple(row[name] for name in _IDENTITY)


def _date(row: Reject) -> str:
    return str(row["hour"].date().isoformat())


def _stored(row: Reject) -> tuple[Any, ...]:
    return (*(row[part.split()[0]] for part in _REJECTS.split(", ")[:-1]), row["hour"].date())
