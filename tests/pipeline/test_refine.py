"""Silver: what the events of a topic become, and where those go that can't be it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.refining import NOON, Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def workshop(spark: SparkSession, tmp_path: Path) -> Workshop:
    return Workshop(spark, tmp_path)


def test_a_poison_row_stops_nothing_and_is_kept_with_its_reason(workshop: Workshop) -> None:
    poison = {
        "not JSON": "malformed: not a JSON object",
        '{"id": 1': "malformed: not a JSON object",
        "": "malformed: not a JSON object",
        "5": "malformed: not a JSON object",
        '[{"id": 1}, {"id": 2}]': "malformed: not a JSON object",
        '{"id": 1} and more': "malformed: not a JSON object",
        '{"id": 1}{"id": 2}': "malformed: not a JSON object",
        '{"id": 1},{"id": 2}': "malformed: not a JSON object",
        '{"id": "one", "total": {}}': "malformed: wrong type: id, total",
        '{"id": 99999999999999999999}': "malformed: wrong type: id",
        '{"id": 3, "user": {"age": "old"}}': "malformed: wrong type",
        '{"total": 2.5}': "malformed: missing key: id",
        '{"id": null}': "malformed: missing key: id",
    }
    workshop.arrive([{"id": 1, "total": 2.5}, *poison, None, '{"id": 2, "id": 4}', {"id": 5, "user": {"age": 7}}])
    workshop.refine(schema="id bigint, total double, user struct<age:int>", key=("id",))

    found = dict(workshop.rows("quarantine/orders", "payload", "reason"))
    assert found.pop(None) == "malformed: not a JSON object"
    assert found == poison
    assert workshop.rows("silver/orders", "id", "total", "user.age") == [(1, 2.5, None), (4, None, None), (5, None, 7)]
    assert workshop.counts() == {
        "read": len(poison) + 4, "good": 3, "late": 0, "malformed": len(poison) + 1, "duplicates": 0, "schema": 1,
    }  # fmt: skip


def test_what_the_schema_does_not_know_is_kept_as_json(workshop: Workshop) -> None:
    known = {"id": 1, "user": {"name": "Ann"}}
    more = {"id": 2, "user": {"name": "Bob", "age": 7, 'a "b"': [1, {"c": None}]}, "n": 1.5, "text": "5", "none": None}
    workshop.arrive([known, more, {"id": 3, "user": None, "tags": ["x"]}])
    workshop.refine(schema="id bigint, user struct<name:string>")
    extra = {number: text and json.loads(text) for number, text in workshop.rows("silver/orders", "id", "_extra")}
    assert extra == {
        1: None,
        2: {"user": {"age": 7, 'a "b"': [1, {"c": None}]}, "n": 1.5, "text": "5", "none": None},
        3: {"tags": ["x"]},
    }


def test_a_key_that_comes_again_is_dropped_and_bad_rows_never_are(workshop: Workshop) -> None:
    workshop.arrive([{"id": 1, "n": 1}, {"id": 2}, {"id": 1, "n": 1}, "bad", "bad"])
    settings = {"schema": "id bigint, n bigint", "key": ("id",), "dedupe_within": "1h"}
    workshop.refine(**settings)
    workshop.arrive([{"id": 2}, {"id": 3}, "bad"], at=NOON + timedelta(minutes=30))
    workshop.arrive([{"id": 2}], tenant="other")
    workshop.refine(**settings)

    found = workshop.rows("silver/orders", "id", "_tenant")
    assert found == [(1, "app"), (2, "app"), (2, "other"), (3, "app")]
    assert len(workshop.rows("quarantine/orders", "offset")) == 3
    assert workshop.counts() == {"read": 4, "good": 2, "late": 0, "malformed": 1, "duplicates": 1, "schema": 1}


def test_a_batch_that_spark_plays_again_is_there_once(workshop: Workshop) -> None:
    commits = Path(workshop.project.lake) / "_checkpoints" / "refine-orders" / "commits"
    for payloads in ([{"id": 1}, "bad"], [{"id": 2}, "bad"]):
        workshop.arrive(payloads)
        workshop.refine(schema="id bigint")
    (commits / "1").unlink()
    workshop.arrive([{"id": 3}])
    workshop.refine(schema="id bigint")
    assert {"0", "1", "2"} <= {noted.name for noted in commits.iterdir()}
    assert workshop.rows("silver/orders", "id") == [(1,), (2,), (3,)]
    assert len(workshop.rows("quarantine/orders", "offset")) == 2


def test_no_clock_loses_a_row(workshop: Workshop) -> None:
    """Spark drops what is behind the watermark: one event from the future, or a tenant with old events, must not."""
    settings = {"schema": "id bigint", "key": ("id",), "dedupe_within": "1m"}
    workshop.arrive([{"id": 1}, {"id": 2}], at=[NOON, datetime.fromisoformat("2099-01-01T00:00:00+00:00")])
    workshop.refine(**settings)
    workshop.arrive([{"id": 3}], at=NOON + timedelta(minutes=1))
    workshop.refine(**settings)
    workshop.arrive([{"id": 4}], at=NOON - timedelta(days=400), tenant="old")
    workshop.refine(**settings)
    workshop.arrive([{"id": 5}], at=NOON + timedelta(minutes=2))
    workshop.refine(**settings)
    assert workshop.rows("silver/orders", "id") == [(1,), (2,), (3,), (4,), (5,)]


@pytest.mark.parametrize("how", ["timestamp", "string"])
def test_late_rows_go_to_quarantine_and_others_to_their_own_date(workshop: Workshop, how: str) -> None:
    early, before, now = NOON - timedelta(days=3), NOON - timedelta(hours=13), NOON
    told: list[object] = [early.isoformat(), before.isoformat(), now.isoformat()]
    if how == "string":  # which holds the numbers of seconds and of milliseconds too
        told += [early.timestamp(), before.timestamp() * 1000, 1e300, 1e18]
    workshop.arrive([{"id": 0}, *({"id": n, "at": at} for n, at in enumerate(told, 1)), {"id": 9, "at": "soon"}])
    workshop.refine(schema=f"id bigint, at {how}", event_time="at", late_after="1d")

    dates = [(number, str(date)) for number, date in workshop.rows("silver/orders", "id", "date")]
    expected = [(0, "2026-01-15"), (2, "2026-01-14"), (3, "2026-01-15")]
    assert dates == (expected if how == "timestamp" else [*expected, (5, "2026-01-14")])
    reasons = [reason for reason, _ in workshop.rows("quarantine/orders", "reason", "offset")]
    if how == "timestamp":
        assert reasons == ["late", "malformed: wrong type: at"]
    else:
        assert reasons == ["late", "late", *["malformed: no time: at"] * 3]


def test_a_payload_of_ten_megabytes_passes(workshop: Workshop) -> None:
    text = "x" * 10_000_000
    workshop.arrive([{"id": 1, "text": text, "more": text}, '{"id": 2, "text": "' + text])
    workshop.refine(schema="id bigint, text string", key=("id",))
    assert workshop.rows("silver/orders", "id", "length(text)", "length(_extra)") == [(1, len(text), len(text) + 11)]
    assert workshop.rows("quarantine/orders", "payload_bytes") == [(len(text) + 19,)]


def test_payloads_without_a_schema_stay_variant(workshop: Workshop) -> None:
    workshop.arrive([{"id": 1, "deep": {"n": [1, 2]}}, {"id": 1}, {"id": {"a": 1}}, "bad", '{"id": 5, "id": 6}'])
    workshop.refine(schema="variant", key=("id",))
    found = workshop.rows("silver/orders", "variant_get(payload, '$.id', 'string')", "to_json(payload)")
    assert found == [("1", '{"deep":{"n":[1,2]},"id":1}'), ('{"a":1}', '{"id":{"a":1}}')]
    assert len(workshop.rows("quarantine/orders", "payload")) == 2


def test_a_field_named_as_a_column_of_the_table_gets_a_name_of_its_own(workshop: Workshop) -> None:
    workshop.arrive([{"id": 1, "date": "soon", "batch": 7}])
    workshop.refine(schema="id bigint, date string, batch int")
    assert workshop.rows("silver/orders", "id", "date_", "batch_", "_offset", "_tenant") == [(1, "soon", 7, 1, "app")]
