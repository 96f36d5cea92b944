"""SQL of the user's own: statements, parameters, answers and errors."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import brant
from brant.errors import BrantError, InvalidValue, StorageError


@pytest.fixture(autouse=True)
def _orders(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note)")


def order_ids(db: brant.Database) -> list[int]:
    return [row["id"] for row in db.query("SELECT id FROM orders ORDER BY id")]


def test_execute_runs_and_query_answers(db: brant.Database) -> None:
    with db.transaction() as tx:
        answer: Any = tx.execute("INSERT INTO orders (id, note) VALUES (1, 'a')")  # type: ignore[func-returns-value]
        assert answer is None
        assert tx.query("SELECT id, note AS remark FROM orders") == [{"id": 1, "remark": "a"}]
        assert tx.query("UPDATE orders SET note = 'b' RETURNING note") == [{"note": "b"}]
        assert tx.query("DELETE FROM orders") == []
    assert order_ids(db) == []


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize(
    "sql", ["SELECT 1", "INSERT INTO orders (id) VALUES (1) RETURNING id", "PRAGMA user_version", "VALUES (1)"]
)
def test_execute_refuses_a_statement_with_rows_and_undoes_it(db: brant.Database, sql: str) -> None:
    with db.transaction() as tx, pytest.raises(StorageError, match="return no rows"):
        tx.execute(sql)
    assert order_ids(db) == []


@pytest.mark.parametrize(
    ("value", "stored"),
    [(None, None), (True, 1), (False, 0), (7, 7), (2**63 - 1, 2**63 - 1), (1.5, 1.5), ("grüße", "grüße")],
)
def test_a_value_comes_back_as_it_was_stored(db: brant.Database, value: object, stored: object) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES (?)", [value])
    assert db.query("SELECT note FROM orders") == [{"note": stored}]
    assert type(db.query("SELECT note FROM orders")[0]["note"]) is type(stored)


@pytest.mark.parametrize("value", [b"", b"\x00\xff", bytes(range(256))])
def test_bytes_come_back_as_bytes(db: brant.Database, value: bytes) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES (?)", (value,))
        assert tx.query("SELECT note FROM orders WHERE note = ?", [value]) == [{"note": value}]


@pytest.mark.parametrize("params", [[1], (1,), {1}, iter([1]), (number for number in [1]), range(1, 2)])
def test_parameters_are_any_iterable_of_values(db: brant.Database, params: Any) -> None:
    assert db.query("SELECT ? AS n", params) == [{"n": 1}]


@pytest.mark.parametrize("params", [{"a": 1}, MappingProxyType({"a": 1}), "a", b"a", bytearray(b"a")])
def test_parameters_that_are_no_sequence_of_values_are_refused(db: brant.Database, params: Any) -> None:
    with pytest.raises(TypeError, match="positional sequence"):
        db.query("SELECT ?", params)


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("value", [Decimal("1.5"), object(), [1], Path("x"), 1j])
def test_a_value_of_another_type_is_refused(db: brant.Database, value: object) -> None:
    with db.transaction() as tx, pytest.raises(TypeError, match=type(value).__name__):
        tx.execute("INSERT INTO orders (note) VALUES (?)", [value])
    assert order_ids(db) == []


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "\ud800"])
def test_a_value_that_sqlite_can_not_hold_is_refused(db: brant.Database, value: object) -> None:
    with db.transaction() as tx, pytest.raises(InvalidValue):
        tx.execute("INSERT INTO orders (note) VALUES (?)", [value])
    assert order_ids(db) == []


@pytest.mark.parametrize(
    ("sql", "params", "text"),
    [
        ("SELECT * FROM missing", [], "no such table: missing"),
        ("SELEC 1", [], "syntax error"),
        ("SELECT ?", [], "binding"),
        ("SELECT 1", [1], "binding"),
        ("SELECT 1; SELECT 2", [], "one statement"),
        ("SELECT abs(-9223372036854775808)", [], "overflow"),
    ],
)
def test_errors_are_typed_and_keep_sqlites_text(db: brant.Database, sql: str, params: list[object], text: str) -> None:
    with pytest.raises(BrantError, match=text) as read:
        db.query(sql, params)
    with db.transaction() as tx, pytest.raises(RuntimeError, match=text) as written:
        tx.query(sql, params)
    assert type(read.value) is type(written.value) is StorageError


def test_settings_are_seen_through_a_query(db: brant.Database) -> None:
    assert db.query("PRAGMA busy_timeout") == [{"timeout": 5000}]
    assert db.query("PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    assert db.query("PRAGMA foreign_keys") == [{"foreign_keys": 1}]


@pytest.mark.parametrize("sql", ["INSERT INTO orders (id) VALUES (1)", "CREATE TABLE t (x)", "DROP TABLE orders"])
def test_a_query_can_not_write(db: brant.Database, sql: str) -> None:
    with pytest.raises(StorageError, match="readonly"):
        db.query(sql)
    assert order_ids(db) == []


def test_a_transaction_begun_by_a_query_does_not_freeze_later_ones(path: Path) -> None:
    with brant.open(path, max_readers=1) as one:
        one.query("BEGIN")
        one.query("SELECT * FROM orders")
        with one.transaction() as tx:
            tx.execute("INSERT INTO orders (id) VALUES (1)")
        assert order_ids(one) == [1]
