"""Bronze made by hand, batch by batch, and the tables that come of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brant.pipeline.jobs.gold import gold
from brant.pipeline.jobs.metrics import metrics
from brant.pipeline.jobs.refine import refine
from brant.pipeline.lake import Lake
from brant.pipeline.project import Gold, Project, Silver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
_EVENT = "offset bigint, key string, payload string, created_at timestamp, tenant string, topic string"


class Workshop:
    """A lake and the project over it."""

    def __init__(self, spark: SparkSession, folder: Path, lake_format: str = "parquet") -> None:
        self.spark = spark
        self.project = Project(str(folder), str(folder / "app.db"), str(folder / "lake"), lake_format)
        self.lake = Lake.of(self.project, create=True)
        self._offset = 0

    def arrive(
        self,
        payloads: Sequence[object],
        topic: str = "orders",
        at: datetime | Sequence[datetime] = NOON,
        tenant: str = "app",
    ) -> None:
        """One more batch of bronze. What is not a text is published as JSON."""
        moments = [at] * len(payloads) if isinstance(at, datetime) else at
        rows = []
        for payload, moment in zip(payloads, moments, strict=True):
            self._offset += 1
            text = payload if isinstance(payload, str | None) else json.dumps(payload)
            rows.append((self._offset, None, text, moment, tenant, topic))
        frame = self.spark.createDataFrame(rows, _EVENT).selectExpr("*", "to_date(created_at) AS date").coalesce(1)
        bronze = self.lake.bronze()
        bronze.write_batch(frame, bronze.log.last_complete() + 1, "by hand")

    def refine(self, **settings: Any) -> None:
        """A run of the table `orders` by these settings."""
        self.project = replace(self.project, silver=(Silver("orders", "orders", **settings),))
        refine(self.spark, self.project)

    def metrics(self) -> None:
        metrics(self.spark, self.project)

    def gold(self, *tables: Gold) -> dict[str, list[str]]:
        self.project = replace(self.project, gold=tables)
        return gold(self.spark, self.project)

    def rows(self, table: str, *columns: str) -> list[Any]:
        """As any reader of Parquet sees them, in the order of their first column."""
        found = self.spark.read.option("mergeSchema", "true").parquet(f"{self.project.lake}/{table}")
        return sorted((tuple(row) for row in found.selectExpr(*columns).collect()), key=repr)

    def counts(self) -> dict[str, object]:
        """The facts of the last batch that read something."""
        log = self.lake.table("silver/orders").log
        batches = [log.read(number) for number in log.numbers()]
        return [batch.facts for batch in batches if batch.facts["read"]][-1]
