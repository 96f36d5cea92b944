"""`df.write.format("brant")` and `df.writeStream.format("brant")`: rows into a stream or a queue, exactly once.

Tasks never touch the database. They check and pack their rows; the driver writes the rows of all tasks and the mark of
the batch in one transaction, so that a batch is there once or not at all, however often a driver dies over it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

import brant
from brant.clock import Clock
from brant.config import is_address
from brant.pipeline.cache import cache_folder
from brant.pipeline.errors import PipelineError
from brant.pipeline.landing import Landing
from brant.pipeline.marks import Mark, local_folder, write_once
from brant.pipeline.options import checked_options, choice, flag, whole_number
from brant.pipeline.postgres import with_timeout
from brant.pipeline.sink_layout import Layout, layout_of
from brant.pipeline.sink_parts import Part, discard, pack, sweep

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS = (
    "path",
    "table",
    "topic",
    "queue",
    "txnAppId",
    "txnVersion",
    "inlineMaxBytes",
    "stagingDir",
    "failOnDataLoss",
    "checkpointLocation",
)
_INLINE_MAX_BYTES = 32 * 1024 * 1024
_BUSY_TIMEOUT_MS = 60_000
_STATEMENT_S = 120  # on a server, with the wait for a lock
_TABLES = ("stream", "queue")


@dataclass(frozen=True)
class Target:
    """Where the rows go and how; the same for every batch."""

    path: str
    layout: Layout
    staging: str
    inline_max_bytes: int

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Part:
        return pack(batches, self.layout, self.staging, self.inline_max_bytes, _query_of_task())

    def land(self, messages: Sequence[WriterCommitMessage | None], mark: Mark | None) -> None:
        parts = _parts(messages)
        path = with_timeout(self.path, _STATEMENT_S) if is_address(self.path) else self.path
        with closing(brant.open(path, synchronous="FULL", busy_timeout_ms=_BUSY_TIMEOUT_MS)) as db:
            write_once(db, mark, Landing(db, self.layout, parts).write, Clock().now())
        self.drop(parts)

    def drop(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks have staged, and what is left of tasks that died long ago."""
        discard(_parts(messages))
        sweep(self.staging)


class BatchWriter(DataSourceArrowWriter):
    """All rows of a DataFrame in one transaction; with txnAppId and txnVersion once, however often it is run."""

    def __init__(self, target: Target, mark: Mark | None) -> None:
        self._target = target
        self._mark = mark

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:
        return self._target.pack(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._target.land(messages, self._mark)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._target.drop(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Each micro-batch in one transaction with its mark."""

    def __init__(self, target: Target, app: str | None, checkpoint: str, *, fail_on_data_loss: bool) -> None:
        self._target = target
        self._app = app
        self._checkpoint = checkpoint
        self._fail_on_data_loss = fail_on_data_loss

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:
        return self._target.pack(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query = next((part.query for part in _parts(messages) if part.query is not None), None)
        if query is None:
            raise PipelineError("Spark did not tell the tasks which query they belong to; nothing was written")
        mark = Mark.of_query(self._app, query, batchId, self._checkpoint, fail_on_data_loss=self._fail_on_data_loss)
        self._target.land(messages, mark)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._target.drop(messages)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    given = checked_options(options, OPTIONS)
    if overwrite:
        raise PipelineError('a stream or a queue is only added to: use .mode("append"); nothing was written')
    app, version = _app(given), whole_number(given, "txnVersion", least=0)
    if app is not None and version is not None:
        return BatchWriter(_target(given, schema), Mark.of_version(app, version))
    if app is not None or version is not None:
        raise PipelineError("txnAppId and txnVersion belong together: set both, or none; nothing was written")
    return BatchWriter(_target(given, schema), None)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    given = checked_options(options, OPTIONS)
    if overwrite:
        raise PipelineError('a stream or a queue is only added to: use .outputMode("append")')
    if "txnVersion" in given:
        raise PipelineError("txnVersion is for batch writes; a streaming query counts its batches itself")
    checkpoint = given.get("checkpointLocation")
    if not checkpoint:
        raise PipelineError(
            'set .option("checkpointLocation", ...) on the query itself: the sink reads there what each batch is, so '
            "that a batch that comes again is written once"
        )
    return StreamWriter(
        _target(given, schema),
        _app(given),
        checkpoint,
        fail_on_data_loss=flag(given, "failOnDataLoss", True),
    )


def _app(given: Mapping[str, str]) -> str | None:
    app = given.get("txnAppId")
    if app is not None and not app.strip():
        raise PipelineError("txnAppId is empty: give the writer a name")
    return app


def _target(given: Mapping[str, str], schema: StructType) -> Target:
    table = choice(given, "table", _TABLES) if "table" in given else None
    inline = whole_number(given, "inlineMaxBytes", least=0)
    path = _file(given.get("path"))
    return Target(
        path,
        layout_of(schema, table, given.get("topic"), given.get("queue")),
        os.path.abspath(given.get("stagingDir") or _staging(path)),
        _INLINE_MAX_BYTES if inline is None else inline,
    )


def _file(path: str | None) -> str:
    if not path:
        raise PipelineError('which database? Set .option("path", "app.db")')
    if is_address(path):
        return path
    found = local_folder(path)
    if found is None:
        raise PipelineError(
            f"{path} is not a file of this machine; pass the path of an SQLite file, or postgresql://user@host/database"
        )
    if os.path.isdir(found) or any(sign in os.path.basename(found) for sign in "*?["):
        raise PipelineError(f"{path} stands for many files; rows are written to one database: pass its path")
    if not os.path.isdir(os.path.dirname(found)):
        raise PipelineError(f"there is no folder {os.path.dirname(found)} for the database {path}")
    return found


def _staging(path: str) -> str:
    """Beside a file; for a server, a folder of this user's."""
    return os.path.join(cache_folder(), "spark-staging") if is_address(path) else f"{path}-spark-staging"


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    # A task that failed has none.
    return [message for message in messages if isinstance(message, Part)]


def _query_of_task() -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty("sql.streaming.queryId")
