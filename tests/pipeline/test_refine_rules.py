"""Silver: schemas that are inferred, kept and changed; rules for private fields; steps of the project's own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from brant.pipeline import PipelineError
from brant.pipeline.inference import inferred
from brant.pipeline.kept_schemas import KeptSchemas
from tests.pipeline.refining import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def workshop(spark: SparkSession, tmp_path: Path) -> Workshop:
    return Workshop(spark, tmp_path)


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"a": 1, "b": "x", "c": True, "d": 1.5}], "a bigint, b string, c boolean, d double"),
        ([{"a": 1}, {"a": 1.5}], "a double"),
        ([{"a": 1}, {"a": "x"}], "a string"),
        ([{"a": None}, {"a": 1}], "a bigint"),
        ([{"a": None}, {"b": []}], "a string, b array<string>"),
        ([{"a": {"b": 1}}, {"a": {"c": [{"d": 1}, {"e": None}]}}],
         "a struct<b:bigint,c:array<struct<d:bigint,e:string>>>"),
        ([{"a": {}}], "a string"),
        ([{"a": {str(n): n for n in range(200)}}], "a string"),
        ([{"a": 2**70}], "a string"),
        ([{"id": 1, "ID": "x"}], "id bigint"),
    ],
)  # fmt: skip
def test_the_columns_of_a_sample(documents: list[object], expected: str) -> None:
    columns = inferred([json.dumps(document) for document in documents])
    assert columns is not None
    assert ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns) == expected


@pytest.mark.parametrize("payloads", [[], ["bad"], ["[1]", "5", "[" * 5000, "null"]])
def test_no_columns_are_made_up_where_there_is_no_object(payloads: list[str]) -> None:
    assert inferred(payloads) is None


def test_an_inferred_schema_is_kept_and_what_does_not_fit_it_ends_where_it_should(workshop: Workshop) -> None:
    workshop.refine()
    workshop.arrive(["junk"])
    workshop.refine()
    assert not workshop.lake.table("silver/orders").exists

    workshop.arrive([{"id": 1, "total": 2.5}, {"id": 2, "note": "x"}])
    workshop.refine()
    workshop.arrive([{"id": "three"}, {"id": 4, "note": {"a": 1}, "new": 1}])
    workshop.refine()

    assert workshop.rows("silver/orders", "id", "total", "note", "_extra") == [
        (1, 2.5, None, None),
        (2, None, "x", None),
        (4, None, '{"a":1}', '{"new":1}'),
    ]
    reasons = [("malformed: not a JSON object",), ("malformed: wrong type: id",)]
    assert workshop.rows("quarantine/orders", "reason") == reasons
    assert KeptSchemas(workshop.lake.files, "orders").versions() == [1]


def test_a_declared_schema_may_grow_and_may_not_change_a_type(workshop: Workshop) -> None:
    workshop.arrive([{"id": 1, "total": 5}])
    workshop.refine(schema="id struct<no:int>")  # which no row fits, so that it may still be mended
    workshop.arrive([{"id": 1, "total": 5}])
    workshop.refine(schema="id bigint")
    workshop.arrive([{"id": 2, "total": 5}])
    workshop.refine(schema="id bigint, total double")
    assert workshop.rows("silver/orders", "id", "total", "_extra") == [(1, None, '{"total":5}'), (2, 5.0, None)]
    assert workshop.counts()["schema"] == 3

    for settings, error in (
        ({"schema": "id string"}, "the column id changes from bigint to string"),
        ({"schema": "variant"}, "schema changes from"),
        ({"schema": "id bigint", "key": ("id",)}, "was begun without a key and can't go on with one"),
        ({"schema": "id bigintt"}, "silver.orders.schema is no schema"),
        ({"schema": "id bigint", "key": ("no",)}, "silver.orders.key names no, and no such column"),
        ({"schema": "id bigint", "event_time": "no"}, "silver.orders.event_time names no"),
        ({"schema": "id bigint", "redact": ("no",)}, "there is a rule for no, and no such column"),
        ({"schema": "id bigint", "redact": ("id.x",)}, "goes into id, which is bigint, not an object"),
    ):
        with pytest.raises(PipelineError, match=error):
            workshop.refine(**settings)
    assert KeptSchemas(workshop.lake.files, "orders").versions() == [1, 2, 3]


def test_private_fields_are_in_no_file_of_silver_and_quarantine(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = {"key": ("id",), "redact": ("user.name", "age"), "hash": ("user.email",)}
    person = {"id": 1, "age": 51, "user": {"name": "Ann-secret", "email": "ann@secret"}}
    workshop.arrive(
        [
            person,
            {"id": 2, "user": {"name": None}, "Age": "secret"},
            {"id": 3, "user": {"Email": "secret", "city": "Rome"}},
            {"id": 4},
            '{"user": {"name": "secret"',
        ]
    )
    monkeypatch.delenv("BRANT_PIPELINE_SALT", raising=False)
    with pytest.raises(PipelineError, match="set BRANT_PIPELINE_SALT to a secret text"):
        workshop.refine(**rules)
    monkeypatch.setenv("BRANT_PIPELINE_SALT", "pepper")
    workshop.refine(**rules)

    email = hashlib.sha256(b"pepperann@secret").hexdigest()
    assert workshop.rows("silver/orders", "id", "age", "user.name", "user.email", "_extra") == [
        (1, None, "***", email, None),
        (2, None, None, None, None),
        (3, None, None, None, None),
        (4, None, None, None, None),
    ]
    broken = b'{"user": {"name": "secret"'
    (bad,) = workshop.rows("quarantine/orders", "payload", "payload_sha256", "payload_bytes")
    assert bad == (None, hashlib.sha256(broken).hexdigest(), len(broken))


def test_a_step_in_sql(workshop: Workshop) -> None:
    workshop.arrive([{"id": 1, "total": 10}, {"id": 2, "total": -1}])
    workshop.refine(sql="SELECT *, total * 2 AS twice FROM input WHERE total > 0")
    assert workshop.rows("silver/orders", "id", "twice") == [(1, 20)]
    assert workshop.counts()["good"] == 2


def test_a_step_in_python_whose_module_only_the_project_has(workshop: Workshop) -> None:
    (Path(workshop.project.folder) / "steps_of_orders.py").write_text(
        "from pyspark.sql.functions import udf\n"
        "def shout(text): return louder(text)\n"
        "def louder(text): return text.upper()\n"
        "def loud(orders): return orders.withColumn('name', udf(shout)('name'))\n"
        "def wrong(orders): return orders.count()\n"
        "def broken(orders): return orders.select(1 / 0)\n"
    )
    workshop.arrive([{"name": "ann"}])
    for name, error in (
        ("no_such_module:f", "silver.orders: there is no no_such_module:f"),
        ("steps_of_orders:no", "silver.orders: there is no steps_of_orders:no"),
        ("steps_of_orders:wrong", "steps_of_orders:wrong gave int: it must give a Spark DataFrame"),
        ("steps_of_orders:broken", "its python steps_of_orders:broken failed: ZeroDivisionError: division by zero"),
    ):
        with pytest.raises(PipelineError, match=error):
            workshop.refine(python=name)
    workshop.refine(python="steps_of_orders:loud")
    assert workshop.rows("silver/orders", "name") == [("ANN",)]


def test_a_step_that_fails_is_named_and_harms_nothing(workshop: Workshop) -> None:
    workshop.arrive([{"id": 1, "total": "x"}])
    for sql, error in (
        ("SELECT nothing FROM input", r"silver.orders: its sql failed: .*nothing"),
        ("SELECT *, CAST(total AS INT) AS n FROM input", r"silver.orders: its sql failed: .*CAST_INVALID_INPUT"),
        ("SELECT id FROM input", "silver.orders: its step drops the column date"),
    ):
        with pytest.raises(PipelineError, match=error):
            workshop.refine(sql=sql)
    workshop.refine(sql="SELECT *, TRY_CAST(total AS INT) AS n FROM input")
    workshop.arrive([{"id": 2, "total": "7"}])
    with pytest.raises(PipelineError, match=r"silver\.orders: the column n changes from int to string"):
        workshop.refine(sql="SELECT *, total AS n FROM input")
    workshop.refine(sql="SELECT *, TRY_CAST(total AS INT) AS n, 1 AS more FROM input")
    assert workshop.rows("silver/orders", "id", "n", "more") == [(1, None, None), (2, 7, 1)]
