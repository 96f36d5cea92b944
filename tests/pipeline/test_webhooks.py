"""Gold about webhooks, with numbers that were counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brant.inbox import RetentionPolicy
from brant.pipeline import PipelineError, sql, stages, status
from brant.pipeline.jobs.inbox import archive_rejects, queries
from brant.pipeline.jobs.webhooks import webhooks
from brant.pipeline.lake import Lake
from brant.pipeline.project import Gold, Metrics, Project
from brant.pipeline.runner import run
from tests.pipeline.hooks import DAY_S, GOOD, RETRY_SOON, Receiver
from tests.pipeline.lakes import project_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = datetime(2026, 1, 16, tzinfo=UTC)
COUNTS = ("received", "verified", "unverified", "invalid", "duplicates", "handled", "failed", "retries", "dead")
TIMES = ("handled_p50_s", "handled_p99_s", "oldest_unhandled_s")


class Desk:
    """An application with an inbox, and the gold that comes of it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.project: Project = project_in(folder)
        self.hooks = Receiver(folder / "app.db", (MIDNIGHT - timedelta(minutes=4)).timestamp())

    def compute(self) -> None:
        stages.archive(self.spark, self.project)
        webhooks(self.spark, self.project)

    def compute_rejects(self) -> None:
        archive_rejects(self.spark, self.project, Lake.of(self.project, create=True))
        webhooks(self.spark, self.project)

    def table(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """By time, the window as `day hour:minute`."""
        chosen = ", ".join(columns)
        order = "window_start, " + ", ".join(str(place) for place in range(1, len(columns) + 1))
        found = sql(self.spark, self.project, f"SELECT {chosen} FROM gold.{name} ORDER BY {order}")
        return [tuple(row) for row in found.collect()]


@pytest.fixture
def desk(spark: SparkSession, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(spark, tmp_path)
    yield made
    made.hooks.close()


AT = "date_format(window_start, 'dd HH:mm')"


def test_what_endpoints_and_providers_sent_and_what_became_of_it(desk: Desk) -> None:
    hooks = desk.hooks
    shop, mail = hooks.endpoint("shop", retry=RETRY_SOON), hooks.endpoint("mail")
    anybody = hooks.endpoint("anybody", provider=None, secrets=None, verify="none")
    hooks.failing = {"fails once", "fails twice"}
    for body in ("good", "fails once", "fails twice", "good"):
        hooks.send(shop, body)
    hooks.send(shop, "forged", valid=False)
    hooks.send(anybody, "hello")
    hooks.clock.advance(30)
    hooks.work()  # 23:56:30: two handled, two fail
    desk.compute()
    hooks.clock.advance(300)
    hooks.failing = {"fails twice"}
    hooks.work()  # 00:01:30
    hooks.send(mail, "good")
    hooks.send(shop, "good")
    hooks.clock.advance(10)
    hooks.work()
    for days in (1, 5):  # the time of its first handling is all that counts
        hooks.clock.advance(days * DAY_S)
        hooks.inbox.replay(1)
        hooks.work()
    desk.compute()

    assert desk.table("webhooks", AT, "endpoint", "provider", *COUNTS) == [
        ("15 23:55", "anybody", None, 1, 0, 1, 0, 0, 1, 0, 0, 0),
        ("15 23:55", "shop", "bearer-token", 5, 4, 0, 1, 1, 1, 2, 2, 0),
        ("16 00:00", "mail", "bearer-token", 1, 1, 0, 0, 0, 1, 0, 0, 0),
        ("16 00:00", "shop", "bearer-token", 1, 1, 0, 0, 1, 1, 1, 0, 1),
        ("17 00:00", "shop", "bearer-token", 0, 0, 0, 0, 0, 1, 0, 0, 0),
        ("22 00:00", "shop", "bearer-token", 0, 0, 0, 0, 0, 1, 0, 0, 0),
    ]
    assert desk.table("webhooks", AT, "endpoint", *TIMES, "success_rate") == [
        ("15 23:55", "anybody", 30.0, 30.0, 0.0, 1.0),
        ("15 23:55", "shop", 30.0, 30.0, 240.0, 1.0),
        ("16 00:00", "mail", 10.0, 10.0, 0.0, 1.0),
        ("16 00:00", "shop", 330.0, 330.0, 0.0, 0.5),
        ("17 00:00", "shop", None, None, 0.0, 1.0),
        ("22 00:00", "shop", None, None, 0.0, 1.0),
    ]
    assert desk.table("webhook_providers", AT, "provider", *COUNTS) == [
        ("15 23:55", None, 1, 0, 1, 0, 0, 1, 0, 0, 0),
        ("15 23:55", "bearer-token", 5, 4, 0, 1, 1, 1, 2, 2, 0),
        ("16 00:00", "bearer-token", 2, 2, 0, 0, 1, 2, 1, 0, 1),
        ("17 00:00", "bearer-token", 0, 0, 0, 0, 0, 1, 0, 0, 0),
        ("22 00:00", "bearer-token", 0, 0, 0, 0, 0, 1, 0, 0, 0),
    ]
    assert desk.table("webhook_providers", AT, "provider", *TIMES)[2] == ("16 00:00", "bearer-token", 170.0, 326.8, 0.0)


def test_rejects_by_reason_stay_when_the_inbox_forgets_them_and_other_windows_are_computed_anew(desk: Desk) -> None:
    hooks = desk.hooks
    shop = hooks.endpoint(max_body=100, max_orphans=0)
    for _ in range(2):
        hooks.send(shop, "forged", valid=False)
    hooks.send(shop, "x" * 101)
    desk.compute_rejects()
    hooks.send(shop, "forged", valid=False)
    desk.compute_rejects()
    hooks.clock.advance(DAY_S)
    hooks.inbox.retain(RetentionPolicy(rejects_s=10))
    hooks.send(shop, "forged", valid=False)
    desk.compute_rejects()
    columns = (AT, "endpoint", "provider", "status", "reason", "rejects")
    wrong, large = "the token is not the right one", "the body is larger than 100 bytes"
    expected = [
        ("15 23:00", "shop", "bearer-token", 401, wrong, 3),
        ("15 23:00", "shop", "bearer-token", 413, large, 1),
        ("16 23:00", "shop", "bearer-token", 401, wrong, 1),
    ]
    assert desk.table("webhook_rejects", *columns) == expected
    assert not Path(desk.project.lake, "gold", "webhooks").exists(), "nothing was stored of them"

    desk.project = replace(desk.project, metrics=Metrics(window="1d"))
    desk.compute_rejects()
    assert desk.table("webhook_rejects", AT, "rejects") == [("15 00:00", 1), ("15 00:00", 3), ("16 00:00", 1)]


def test_a_gold_table_over_deliveries_and_its_error_is_in_status(desk: Desk) -> None:
    desk.hooks.endpoint().receive(b'{"n": 1}', GOOD)
    run(queries(desk.spark, desk.project, Lake.of(desk.project, create=True)))
    per_day = "SELECT date, count(*) AS n, first(CAST(body AS STRING)) AS body FROM bronze.deliveries GROUP BY date"
    tables = (Gold("good", ("bronze.deliveries",), per_day), Gold("bad", ("bronze.deliveries",), "SELECT nothing"))
    desk.project = replace(desk.project, gold=tables)
    with pytest.raises(PipelineError, match=r"gold\.bad"):
        stages.gold(desk.spark, desk.project)
    found = {query.query: query for query in status(desk.project).queries}
    assert (found["gold-good"].batch, found["gold-good"].error) == (1, None)
    assert "nothing" in (found["gold-bad"].error or "")
    assert found["gold-bad"].error_at is not None
    rows = sql(desk.spark, desk.project, "SELECT n, body FROM gold.good").collect()
    assert rows == [(1, '{"n": 1}')]
    assert Lake.of(desk.project).table("bronze/deliveries").partition_by == ("endpoint", "date")
