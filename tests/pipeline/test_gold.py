"""Gold tables of a project's own: computed for the dates that changed, in the order of their sources."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brant.pipeline import PipelineError
from brant.pipeline.project import Gold
from tests.pipeline.refining import NOON, Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REVENUE = Gold("revenue", ("silver.orders",), sql="SELECT date, sum(total) AS revenue FROM silver.orders GROUP BY date")
BEST = Gold("best", ("gold.revenue",), sql="SELECT date, revenue FROM gold.revenue WHERE revenue > 10")
FIRST, SECOND = "2026-01-15", "2026-01-16"


@pytest.fixture
def workshop(spark: SparkSession, tmp_path: Path) -> Workshop:
    return Workshop(spark, tmp_path)


def sell(workshop: Workshop, total: int, day: int = 0) -> None:
    workshop.arrive([{"total": total}], at=NOON + timedelta(days=day))
    workshop.refine(schema="total bigint")


def of(workshop: Workshop, table: str) -> dict[str, int]:
    return {str(date): revenue for date, revenue in workshop.rows(f"gold/{table}", "date", "revenue")}


def test_only_dates_that_changed_are_computed_again_down_the_line(workshop: Workshop) -> None:
    sell(workshop, 8)
    sell(workshop, 20, day=1)
    assert workshop.gold(BEST, REVENUE) == {"revenue": [FIRST, SECOND], "best": [FIRST, SECOND]}
    assert (of(workshop, "revenue"), of(workshop, "best")) == ({FIRST: 8, SECOND: 20}, {SECOND: 20})

    assert workshop.gold(BEST, REVENUE) == {"revenue": [], "best": []}
    sell(workshop, 4)
    assert workshop.gold(BEST, REVENUE) == {"revenue": [FIRST], "best": [FIRST]}
    assert (of(workshop, "revenue"), of(workshop, "best")) == ({FIRST: 12, SECOND: 20}, {FIRST: 12, SECOND: 20})

    sell(workshop, -5)
    workshop.gold(BEST, REVENUE)
    assert of(workshop, "best") == {SECOND: 20}, "a date that has no rows any more has none"


def test_tables_of_delta_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    workshop = Workshop(spark, tmp_path, "delta")
    sell(workshop, 11)
    sell(workshop, 20, day=1)
    workshop.gold(REVENUE, BEST)
    sell(workshop, -5)
    workshop.gold(REVENUE, BEST)
    rows = DeltaTable(str(tmp_path / "lake" / "gold" / "best")).to_pyarrow_table().to_pylist()
    assert [(str(row["date"]), row["revenue"]) for row in rows] == [(SECOND, 20)]
    assert len(DeltaTable(str(tmp_path / "lake" / "silver" / "orders")).to_pyarrow_table()) == 3


def test_a_table_that_is_declared_anew_is_computed_anew(workshop: Workshop) -> None:
    sell(workshop, 8)
    sell(workshop, 20, day=1)
    workshop.gold(REVENUE)
    doubled = Gold("revenue", REVENUE.sources, sql="SELECT date, sum(total) * 2 AS revenue FROM orders GROUP BY date")
    assert workshop.gold(doubled) == {"revenue": [FIRST, SECOND]}
    assert of(workshop, "revenue") == {FIRST: 16, SECOND: 40}
    few = Gold("revenue", REVENUE.sources, sql="SELECT date, total AS revenue FROM silver_orders WHERE total > 9")
    workshop.gold(few)
    assert of(workshop, "revenue") == {SECOND: 20}


def test_python_gets_a_frame_for_each_source(workshop: Workshop) -> None:
    (Path(workshop.project.folder) / "steps_of_gold.py").write_text(
        "def joined(orders, events):\n"
        "    return orders.join(events.groupBy('date').count(), 'date').selectExpr('date', 'count AS revenue')\n"
    )
    sell(workshop, 1)
    workshop.arrive(["x", "y"], topic="other")
    table = Gold("seen", ("silver.orders", "bronze.events"), python="steps_of_gold:joined")
    assert workshop.gold(table) == {"seen": [FIRST]}
    assert of(workshop, "seen") == {FIRST: 3}


def test_metrics_are_sources_too_and_one_that_is_not_there_yet_is_waited_for(workshop: Workshop) -> None:
    table = Gold("busy", ("gold.topics",), sql="SELECT date, sum(events) AS revenue FROM gold.topics GROUP BY date")
    workshop.arrive(["x", "y"])
    assert workshop.gold(table) == {"busy": []}
    workshop.metrics()
    assert workshop.gold(table) == {"busy": [FIRST]}
    assert of(workshop, "busy") == {FIRST: 2}


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT nothing FROM silver.orders", r"gold\.bad: its sql failed: .*nothing"),
        ("SELECT total FROM silver.orders", r"gold\.bad: its rows have no column date"),
        ("SELECT date + 7 AS date, total FROM silver.orders", r"gold\.bad: its sql failed: .*rows of other dates"),
    ],
)
def test_a_step_that_fails_is_named(workshop: Workshop, sql: str, error: str) -> None:
    sell(workshop, 1)
    with pytest.raises(PipelineError, match=error):
        workshop.gold(Gold("bad", ("silver.orders",), sql=sql))
    assert not (Path(workshop.project.lake) / "gold" / "bad").exists()
    assert not [view.name for view in workshop.spark.catalog.listTables() if "orders" in view.name]
