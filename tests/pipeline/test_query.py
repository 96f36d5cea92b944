"""SQL over the lake and the live tables: names, what is read, what is refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brant.pipeline import PipelineError, archive, sql
from brant.pipeline.project import Project
from tests.pipeline.commands import shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def project(tmp_path: Path) -> Project:
    shop(tmp_path / "app.db", orders=3)
    return Project(folder=str(tmp_path), database=str(tmp_path / "app.db"), lake=str(tmp_path / "lake"))


def rows(spark: SparkSession, project: Project, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in sql(spark, project, statement).collect()]


def test_the_live_tables_can_be_asked_before_there_is_a_lake(spark: SparkSession, project: Project) -> None:
    assert rows(spark, project, "SELECT count(*) FROM live.stream WHERE topic = 'orders'") == [(4,)]
    assert rows(spark, project, "SELECT queue, last_error FROM LIVE.Dead") == [("emails", "SMTP error 421: try later")]
    with pytest.raises(PipelineError, match=r"there is no table bronze\.events; did you mean live\.events"):
        sql(spark, project, "SELECT * FROM bronze.events")


def test_the_lake_and_the_live_tables_together(spark: SparkSession, project: Project) -> None:
    archive(spark, project)
    joined = """
        SELECT b.key, l.payload = b.payload -- not gold.nothing
        FROM bronze.events b JOIN live_stream l ON l.offset = b.offset
        WHERE b.topic = 'orders' AND b.key IS NOT NULL AND 'silver.nothing' != "gold.nothing" /* gold.nothing */
        ORDER BY b.key"""
    assert rows(spark, project, joined) == [("0", True), ("1", True), ("2", True)]
    assert rows(spark, project, "SELECT bronze.events.topic FROM bronze.events WHERE offset = 1") == [("orders",)]
    ((day,),) = rows(spark, project, "SELECT max(date) FROM bronze_events")
    assert isinstance(day, date)
    assert rows(spark, project, "SELECT 1 AS gold_price") == [(1,)], "a column may look like a table"

    with pytest.raises(PipelineError, match=r"there is no table bronze\.event; did you mean bronze\.events\?"):
        sql(spark, project, "SELECT * FROM bronze.event")
    before = rows(spark, project, "SELECT count(*) FROM bronze.events")
    with pytest.raises(PipelineError):
        sql(spark, project, "INSERT INTO bronze.events SELECT * FROM bronze.events")
    assert rows(spark, project, "SELECT count(*) FROM bronze.events") == before, "the lake is not written to"
