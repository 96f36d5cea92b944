"""The project file: what it says, and what is wrong in it, in one sentence. No Spark is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brant.pipeline import PipelineError
from brant.pipeline.project import Gold, Project, in_order, load, seconds

DATABASE = '[pipeline]\ndatabase = "app.db"\n'
SILVER = '[silver.orders]\ntopic = "orders"\n'
GOLD = '[gold.revenue]\nsources = ["silver.orders"]\n'


def read(folder: Path, text: str) -> Project:
    file = folder / "brant-pipeline.toml"
    file.write_text(text)
    return load(str(file))


def test_a_database_is_all_that_a_project_needs(tmp_path: Path) -> None:
    project = read(tmp_path, DATABASE)
    assert (project.database, project.lake) == (str(tmp_path / "app.db"), str(tmp_path / "lake"))
    assert (project.format, project.silver, project.gold, project.metrics.window) == ("parquet", (), (), "5m")


def test_paths_are_those_of_the_file_and_urls_are_left_alone(tmp_path: Path) -> None:
    project = read(tmp_path, '[pipeline]\ndatabase = "/data/*.db"\nlake = "s3://bucket/lake"\n')
    assert (project.database, project.lake) == ("/data/*.db", "s3://bucket/lake")


def test_a_whole_project(tmp_path: Path) -> None:
    project = read(
        tmp_path,
        """
        [pipeline]
        database = "tenants"
        format = "parquet"
        master = "local[2]"
        spark = { "spark.driver.memory" = "2g" }
        [archive]
        topics = ["orders"]
        prune = true
        [silver.orders]
        topic = "orders"
        schema = "id bigint, at timestamp, email string"
        key = "id"
        event_time = "at"
        late_after = "7d"
        hash = ["email"]
        sql = "SELECT * FROM input"
        [metrics]
        window = "1h"
        [gold.revenue]
        sources = ["silver.orders", "gold.queues"]
        python = "steps:revenue"
        [schedule]
        archive = "1m"
        """,
    )
    assert project.spark == {"spark.driver.memory": "2g"}
    assert project.archive.prune
    (orders,) = project.silver
    assert (orders.key, orders.hash, orders.dedupe_within) == (("id",), ("email",), "1d")
    (revenue,) = project.gold
    assert (revenue.sources, revenue.python) == (("silver.orders", "gold.queues"), "steps:revenue")
    assert project.schedule == {"archive": "1m"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "pipeline.database is missing"),
        ("[pipline]", "pipline is no setting; did you mean 'pipeline'?"),
        ("[pipeline\n", "can't be read"),
        ("pipeline = 1", "pipeline must be a section: write [pipeline]"),
        ('[pipeline]\ndatabse = "x"', "pipeline.databse is no setting; did you mean 'database'?"),
        ("[pipeline]\ndatabase = 1", "pipeline.database must be a text, not 1"),
        (DATABASE + 'format = "orc"', "pipeline.format must be one of parquet, delta, not 'orc'"),
        (DATABASE + "[archive]\nprune = 1", "archive.prune must be true or false, not 1"),
        (DATABASE + "[archive]\ntopics = [1]", "archive.topics must be a text or a list of texts"),
        (DATABASE + "[archive]\nmax_events_per_batch = 0", "archive.max_events_per_batch must be 1 or more"),
        (DATABASE + '[metrics]\nwindow = "5 minutes"', "metrics.window: '5 minutes' is not a duration"),
        (DATABASE + '[metrics]\nwindow = "7m"', "metrics.window must divide a day, as 5m or 1h does, not '7m'"),
        (DATABASE + '[metrics]\nlookback = "0d"', "metrics.lookback: '0d' is not a duration"),
        (DATABASE + "[silver.orders]", "silver.orders.topic is missing"),
        (DATABASE + '[silver.orders]\ntopic = ""', "silver.orders.topic is empty"),
        (DATABASE + '[silver.Orders]\ntopic = "x"', "silver.Orders is no name for a table"),
        (DATABASE + "silver = 1", "pipeline.silver is no setting"),
        (DATABASE + "[silver]\norders = 1", "silver.orders must be a table: write [silver.orders]"),
        (DATABASE + SILVER + 'late_after = "1d"', "silver.orders.late_after needs event_time"),
        (DATABASE + SILVER + 'dedupe_within = "long"', "silver.orders.dedupe_within: 'long' is not a duration"),
        (DATABASE + SILVER + 'schema = "variant"\nhash = "x"', 'they need "infer" or columns'),
        (DATABASE + SILVER + 'redact = "x"\nhash = "x"', "silver.orders.hash and redact both name 'x'"),
        (DATABASE + SILVER + 'redact = "user..name"', "silver.orders.redact must name fields"),
        (DATABASE + SILVER + 'key = ["id", "id"]', "silver.orders.key names a field twice"),
        (DATABASE + SILVER + 'sql = "x"\npython = "a:b"', "silver.orders.python and sql exclude each other"),
        (DATABASE + SILVER + 'python = "a.b"', "silver.orders.python must name a function as module:function"),
        (DATABASE + SILVER + GOLD, "gold.revenue.sql is missing: a table needs sql or python"),
        (DATABASE + GOLD + 'sql = "x"', "gold.revenue.sources 'silver.orders' is no table"),
        (DATABASE + '[gold.revenue]\nsql = "x"\nsources = []', "gold.revenue.sources is empty"),
        (DATABASE + '[gold.topics]\nsql = "x"\nsources = "bronze.events"', "gold.topics is a table of Brant's own"),
        (DATABASE + '[schedule]\nrefin = "5m"', "schedule.refin is no setting; did you mean 'refine'?"),
        (DATABASE + "[schedule]\nrefine = 5", "schedule.refine: 5 is not a duration"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(error)) as raised:
        read(tmp_path, text)
    assert "brant-pipeline.toml" in str(raised.value)


def test_a_file_that_is_not_there_tells_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="`brant pipeline init` makes one"):
        load(str(tmp_path / "brant-pipeline.toml"))


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("5m", 300), (" 2 h ", 7200), ("7d", 604_800)])
def test_durations(text: str, expected: int) -> None:
    assert seconds(text) == expected


def test_gold_tables_come_behind_their_sources() -> None:
    tables = [Gold("c", ("gold.b", "gold.a")), Gold("a", ("silver.x",)), Gold("b", ("gold.a", "gold.topics"))]
    assert [table.name for table in in_order(tables)] == ["a", "b", "c"]


def test_gold_tables_that_are_made_from_each_other_are_refused(tmp_path: Path) -> None:
    circle = '[gold.a]\nsql = "x"\nsources = "gold.b"\n[gold.b]\nsql = "x"\nsources = "gold.a"\n'
    with pytest.raises(PipelineError, match=r"in a circle: gold\.\w <- gold\.\w <- gold\.\w"):
        read(tmp_path, DATABASE + circle)
