"""Gold about webhooks that Brant computes itself: what each endpoint and provider sent, and what became of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

from brant.pipeline.archives import ATTEMPTS, BRONZE_REJECTS, DELIVERIES, Archived
from brant.pipeline.jobs.metrics import as_frame, with_days_before
from brant.pipeline.jobs.recomputed import Computed, RecomputedTable, noting
from brant.pipeline.jobs.sources import Source
from brant.pipeline.lake import Lake
from brant.pipeline.project import WEBHOOK_TABLES, Project, seconds
from brant.pipeline.tables import statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HOUR_S = 3600
_RECEIVED = (DELIVERIES, ATTEMPTS)


def webhooks(spark: SparkSession, project: Project) -> None:
    """Bring gold/webhooks, webhook_providers and webhook_rejects up to what is in bronze now."""
    _Webhooks(spark, project).bring_up()


def _named(path: str) -> str:
    return path.replace("/", ".")


class _Due:
    """The dates for which tables of gold have to be computed: those that have changed in their sources.

    All of them, where windows are others than before.
    """

    def __init__(self, lake: Lake, names: Collection[str], sources: Collection[str], definition: str) -> None:
        self.sources = {name: Source(lake, name) for name in sources}
        self._lake = lake
        self._definition = definition
        self._targets = {name: RecomputedTable(lake, name) for name in names}
        # Noted before the files are listed: what comes in between is seen again in the next run, never missed.
        self._positions = {name: source.position for name, source in self.sources.items()}
        self.dates = {date for target in self._targets.values() for date in self._changed_since(target.computed)}

    def _changed_since(self, before: Computed) -> Iterator[str]:
        known = before.sources if before.definition == self._definition else {}
        for name, source in self.sources.items():
            yield from source.changed(known.get(name, -1))

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What goes wrong is noted of each table."""
        with ExitStack() as stack:
            for name in self._targets:
                stack.enter_context(noting(self._lake, name))
            yield

    def put(self, name: str, rows: DataFrame) -> None:
        self._targets[name].put(rows, self.dates, sources=self._positions, definition=self._definition)


class _Webhooks:
    def __init__(self, spark: SparkSession, project: Project) -> None:
        self._spark = spark
        self._lake = Lake.of(project)
        self._window_s = seconds(project.metrics.window)
        self._lookback_s = seconds(project.metrics.lookback)
        self._definition = f"window {self._window_s} s, lookback {self._lookback_s} s"

    def bring_up(self) -> None:
        by_endpoint, by_provider, rejects = WEBHOOK_TABLES
        received = [_named(DELIVERIES.target), _named(ATTEMPTS.target)]
        due = _Due(self._lake, (by_endpoint, by_provider), received, self._definition)
        if due.dates:
            with due.noting():
                self._put_received(due, by_endpoint, by_provider)
        due = _Due(self._lake, (rejects,), [_named(BRONZE_REJECTS)], self._definition)
        if due.dates:
            with due.noting():
                due.put(rejects, self._rejects(due))

    def _rejects(self, due: _Due) -> DataFrame:
        """By the hour, or by longer windows: the inbox counts them so."""
        (source,) = due.sources.values()
        window = {"window": max(self._window_s, _HOUR_S)}
        return self._sql("webhook_rejects", window, rejects=source.rows(self._spark, due.dates))

    def _put_received(self, due: _Due, by_endpoint: str, by_provider: str) -> None:
        days = with_days_before(due.dates, self._lookback_s)
        deliveries, attempts = (self._rows(due.sources[_named(kind.target)], kind, days) for kind in _RECEIVED)
        received = {"deliveries": deliveries, "attempts": attempts}
        window = {"window": self._window_s}
        since = datetime.combine(datetime.fromisoformat(min(days)), time(), UTC)
        moments = self._sql(
            "webhook_moments", {**window, "since": since}, **received, dates=as_frame(self._spark, due.dates)
        ).localCheckpoint()
        waiting = self._sql("webhook_waiting", window, **received).localCheckpoint()
        due.put(by_endpoint, self._joined(moments, waiting))
        no_endpoint = F.lit(None).cast("string")
        both = (frame.withColumn("endpoint", no_endpoint) for frame in (moments, waiting))
        due.put(by_provider, self._joined(*both).drop("endpoint"))

    def _joined(self, moments: DataFrame, waiting: DataFrame) -> DataFrame:
        # Used twice, and small: computed once.
        rates = self._sql("webhook_rates", {}, moments=moments).localCheckpoint()
        return self._sql("webhooks", {"window": self._window_s}, rates=rates, waiting=waiting)

    def _rows(self, source: Source, kind: Archived, days: Collection[str]) -> DataFrame:
        found = source.rows(self._spark, days)
        return self._spark.createDataFrame([], kind.columns) if found is None else found

    def _sql(self, name: str, args: Mapping[str, object], **frames: DataFrame | None) -> DataFrame:
        return self._spark.sql(statement(name, "spark"), dict(args), **frames)
