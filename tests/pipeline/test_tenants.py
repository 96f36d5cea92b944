"""Many files at once: a folder or a glob of tenants, with a column that tells which."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from brant.pipeline import PipelineError
from brant.pipeline.tenants import Tenants
from tests.pipeline.reading import rows, slices

MakeEvents = Callable[..., Path]


def test_a_folder_is_read_with_the_tenant_of_each_row(tenants: Path) -> None:
    found = rows(tenants)
    assert sorted((row["tenant"], row["offset"]) for row in found) == [
        ("ann", 1),
        ("ann", 2),
        ("ann", 3),
        ("bob", 1),
        ("bob", 2),
        ("cy", 1),
    ]


def test_a_glob_is_read(tenants: Path) -> None:
    assert {row["tenant"] for row in rows(tenants / "[ab]*.db")} == {"ann", "bob"}


def test_files_of_one_name_in_many_folders_are_told_apart(make_events: MakeEvents, tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        make_events(f"data/{name}/app.db", orders=[1])
    assert set(Tenants(str(tmp_path / "data/*/app.db")).find()) == {"ann/app", "bob/app"}
    assert {row["tenant"] for row in rows(tmp_path / "data/*/app.db")} == {"ann/app", "bob/app"}


def test_escaped_names_are_the_tenants_real_ones(make_events: MakeEvents, tmp_path: Path) -> None:
    make_events("tenants/a%2Fb%20%C3%A9.db", orders=[1])
    assert [row["tenant"] for row in rows(tmp_path / "tenants")] == ["a/b é"]


def test_a_path_with_special_characters_is_a_file_where_there_is_one(make_events: MakeEvents) -> None:
    path = make_events("a[1] 100%?#.db", orders=[1])
    assert [row["offset"] for row in rows(path)] == [1]


def test_a_uri_of_a_file_is_its_path(make_events: MakeEvents) -> None:
    assert [row["offset"] for row in rows(make_events("a b.db", orders=[1]).as_uri())] == [1]


def test_one_file_has_no_tenant_column_unless_asked_for(make_events: MakeEvents) -> None:
    path = make_events(orders=[1])
    assert "tenant" not in rows(path)[0]
    assert rows(path, tenantColumn="customer")[0]["customer"] == "app"
    assert rows(path, columns="offset,tenant") == [{"offset": 1, "tenant": "app"}]


def test_the_tenant_column_can_be_left_out(tenants: Path) -> None:
    assert "tenant" not in rows(tenants, tenantColumn="false")[0]


def test_other_files_of_a_folder_are_passed_over(tenants: Path) -> None:
    for name in ("notes.txt", "ann.db-wal", ".hidden.db", "ann.db-journal"):
        (tenants / name).write_text("")
    (tenants / "sub.db").mkdir()
    assert set(Tenants(str(tenants)).find()) == {"ann", "bob", "cy"}


def test_two_files_of_one_tenant_are_told(make_events: MakeEvents, tmp_path: Path) -> None:
    make_events("tenants/ann.db", orders=[1])
    make_events("tenants/ann.sqlite", orders=[1])
    with pytest.raises(PipelineError, match="would both be the tenant 'ann'"):
        rows(tmp_path / "tenants")


def test_a_broken_file_among_many_is_named(tenants: Path) -> None:
    (tenants / "broken.db").write_text("not a database, but long enough to be looked at as one " * 20)
    with pytest.raises(PipelineError, match=r"broken\.db is not an SQLite database"):
        rows(tenants)


@pytest.mark.parametrize("table", ["stream", "queue"])
def test_many_small_files_are_packed_into_few_slices(make_events: MakeEvents, tmp_path: Path, table: str) -> None:
    for number in range(20):
        make_events(f"tenants/{number:02}.db", orders=range(5))
    found = slices(tmp_path / "tenants", table=table, minPartitions=4)
    assert 1 < len(found) <= 8
    assert sorted(extent.tenant for part in found for extent in part.extents) == [f"{n:02}" for n in range(20)]


def test_offsets_can_be_given_for_each_tenant(tenants: Path) -> None:
    found = rows(tenants, startingOffsets='{"ann": 3, "bob": -1}')
    assert sorted((row["tenant"], row["offset"]) for row in found) == [("ann", 3), ("cy", 1)]


def test_tables_that_change_in_place_have_the_tenant_too(tenants: Path) -> None:
    assert rows(tenants, table="consumers") == []


def test_spark_reads_a_folder(tenants: Path, spark: SparkSession) -> None:
    frame = spark.read.format("brant").load(str(tenants))
    assert {row["tenant"]: row["count"] for row in frame.groupBy("tenant").count().collect()} == {
        "ann": 3,
        "bob": 2,
        "cy": 1,
    }
