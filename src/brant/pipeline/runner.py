"""Running streaming queries: once up to now, or until stopped; with progress, and errors as one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brant.pipeline.archives import ARCHIVES
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_in, sentence_of
from brant.pipeline.notes import Notes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BatchWriter = Callable[["DataFrame", int], None]
_POLL_S = 0.5


@dataclass(frozen=True)
class Query:
    """A streaming query that has not been started."""

    name: str
    stream: DataStreamWriter
    write: BatchWriter
    checkpoint: Checkpoint

    def start(self, *, every_s: float | None = None) -> StreamingQuery:
        """Run to the end of what is there now, or, with `every_s`, again and again until it is stopped."""
        self.checkpoint.forget_half_a_start()
        stream = self.stream.queryName(self.name).option("checkpointLocation", self.checkpoint.url)
        stream = (
            stream.trigger(availableNow=True)
            if every_s is None
            else stream.trigger(processingTime=f"{every_s} seconds")
        )
        return stream.foreachBatch(self.write).start()


@dataclass(frozen=True)
class Progress:
    """What a query has done since it was started."""

    name: str
    batch: int
    rows: int
    rows_per_s: float
    lag: int | None
    """Events, or batches of the lake, that are in the source and not yet read; None when nobody knows."""


def _ignore(_: Progress) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Watcher:
    """Who is told of progress, who may end the wait, and what else is to be done while queries run."""

    on_progress: Callable[[Progress], None] = _ignore
    stop_requested: Callable[[], bool] = _never
    meanwhile: Callable[[], None] = lambda: None


def run(
    queries: Sequence[Query],
    on_progress: Callable[[Progress], None] = _ignore,
    stop_requested: Callable[[], bool] = _never,
) -> None:
    """Run the queries beside each other up to what is there now; the first failure stops the others."""
    run_until(queries, Watcher(on_progress, stop_requested))


def run_until(
    queries: Sequence[Query], watcher: Watcher, every_s: Callable[[str], float | None] = lambda _: None
) -> None:
    """Run the queries, each once or, where `every_s` of its name is a number, until they are stopped."""
    running: list[StreamingQuery] = []
    meters: list[_Meter] = []
    try:
        for query in queries:
            running.append(_started(query, every_s(query.name)))
            meters.append(_Meter(running[-1], Notes(query.checkpoint.files, query.name), watcher.on_progress))
        _wait(meters, watcher)
    finally:
        for started in running:
            started.stop()
        for meter in meters:
            meter.end()


def _started(query: Query, every_s: float | None) -> StreamingQuery:
    try:
        return query.start(every_s=every_s)
    except Exception as error:
        text = sentence_of(error)
        Notes(query.checkpoint.files, query.name).failed(text)
        raise PipelineError(f"{query.name}: {text}") from error


def _wait(meters: list[_Meter], watcher: Watcher) -> None:
    while any(meter.query.isActive for meter in meters):
        for meter in meters:
            meter.wait(_POLL_S)
            meter.look()
            if watcher.stop_requested():
                return
            if not meter.query.isActive:
                meter.raise_failure()
        watcher.meanwhile()
    for meter in meters:
        meter.look()
        meter.raise_failure()


class _Meter:
    """Adds up what the batches of a query report, each once."""

    def __init__(self, query: StreamingQuery, notes: Notes, tell: Callable[[Progress], None]) -> None:
        self.query = query
        self._name = str(query.name)
        self._notes = notes
        self._tell = tell
        self._seen = ("", -1)
        self._rows = 0
        self._begun = time.monotonic()
        notes.begun()

    def wait(self, seconds: float) -> None:
        """Until the query has ended, at most for that long; `raise_failure` tells how."""
        from pyspark.errors import StreamingQueryException

        try:
            self.query.awaitTermination(seconds)  # type: ignore[arg-type]  # it takes fractions
        except StreamingQueryException:
            pass

    def look(self) -> None:
        for report in _reports(self.query):
            # By time too: while nothing comes, Spark reports the number of the batch that is to come.
            number = int(_of(report, "batchId"))
            at = (str(_of(report, "timestamp")), number)
            if at > self._seen:
                self._seen = at
                if not _is_idle(report):
                    self._add(
                        number, int(_of(report, "numInputRows") or 0), _lag(report, in_lake=self._name not in ARCHIVES)
                    )

    def _add(self, number: int, rows: int, lag: int | None) -> None:
        self._rows += rows
        rate = self._rows / max(time.monotonic() - self._begun, 0.001)
        self._notes.progressed(number, rows, rate)
        self._tell(Progress(self._name, number, self._rows, rate, lag))

    def raise_failure(self) -> None:
        failure = self.query.exception()
        if failure is not None:
            text = sentence_in(str(failure))
            self._notes.failed(text)
            raise PipelineError(f"{self._name}: {text}") from failure

    def end(self) -> None:
        self._notes.ended()


def _reports(query: StreamingQuery) -> Sequence[Any]:
    """Of the latest batches; a Connect server of Spark 4.3 gives none but the last."""
    recent = query.recentProgress
    last = None if recent else query.lastProgress
    return recent if last is None else [last]


def _of(report: Any, name: str) -> Any:
    return report[name] if isinstance(report, dict) else getattr(report, name)


def _is_idle(report: Any) -> bool:
    """Nothing was new. A source that has nothing yet has a first batch all the same, from nowhere to nowhere."""
    ends = [(_of(source, "startOffset"), _of(source, "endOffset")) for source in _of(report, "sources")]
    return all(start == end or _offsets(end) == {} for start, end in ends)


def _lag(report: Any, *, in_lake: bool) -> int | None:
    behind = 0
    for source in _of(report, "sources"):
        end, latest = _offsets(_of(source, "endOffset")), _offsets(_of(source, "latestOffset"))
        if end is None or latest is None:
            return None
        # A position in the lake is the number of a batch, and what a query keeps beside it; else, offsets by tenant.
        names = ["batch"] if in_lake else list(latest)
        behind += sum(max(0, latest.get(name, 0) - end.get(name, 0)) for name in names)
    return behind


def _offsets(told: Any) -> dict[str, int] | None:
    """Spark tells them as JSON text."""
    try:
        offsets = json.loads(told) if isinstance(told, str) else told
        return {str(name): int(offset) for name, offset in offsets.items()}
    except (ValueError, TypeError, AttributeError):
        return None
