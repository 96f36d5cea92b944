"""The SQL of the inbox: the same names for a file and for a server, and each prepares there."""

from __future__ import annotations

import re

import psycopg
import pytest

import brant
from brant.inbox.bridging.tables import prepare as prepare_bridge
from brant.inbox.tables import making, statements
from brant.storage.postgres.sql import with_numbers
from tests.servers import Server

MAKING = ("make_", "bridge_make_")
SAVEPOINTS = ("begin_one", "undo_one", "end_one")
NAMES = sorted(name for name in statements() if not name.startswith(MAKING) and name not in SAVEPOINTS)
TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (?:\"brant\"\.)?(\w+) \((.*)\)", re.DOTALL)


def columns(sql: str) -> list[str]:
    return re.findall(r"^    ([a-z_0-9]+) ", sql, re.MULTILINE)


def tables(schema: str | None) -> dict[str, list[str]]:
    made = [name for prefix in MAKING for name in making(schema, prefix)]
    found = [TABLE.match(statements(schema)[name]) for name in made]
    return {each[1]: columns(each[2]) for each in found if each is not None}


def test_a_file_and_a_server_have_the_same_statements() -> None:
    def used(schema: str | None) -> set[str]:
        return {name for name in statements(schema) if not name.startswith(MAKING)}

    assert used("brant") == used(None)


def test_a_file_and_a_server_have_the_same_tables_with_the_same_columns() -> None:
    assert len(tables(None)) == 13
    assert tables("brant") == tables(None)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> brant.Database:
    db = brant.open(tmp_path_factory.mktemp("statements") / "app.db")
    brant.Inbox(db)
    prepare_bridge(db)
    return db


@pytest.mark.parametrize("name", NAMES)
def test_each_prepares_on_a_file(file: brant.Database, name: str) -> None:
    sql = statements()[name]
    numbers = {int(number) for number in re.findall(r"\?(\d+)", sql)}
    assert file.query(f"EXPLAIN {sql}", [None] * max(numbers, default=0))


def test_each_prepares_on_the_server(postgres_server: Server) -> None:
    with postgres_server.database(with_inbox=True) as address:
        with brant.open(address) as db, brant.Inbox(db):
            prepare_bridge(db)
        with psycopg.connect(address) as connection:
            for place, name in enumerate(NAMES):
                connection.execute(f"PREPARE statement_{place} AS {with_numbers(statements('brant')[name])}")


def test_no_index_makes_the_statements_of_queues_be_prepared_anew_for_each_name(file: brant.Database) -> None:
    """SQLite does so where a value that is bound decides whether a partial index may be used: `queue = 'a name'`."""
    rows = file.query("SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name LIKE '_honker%'")
    conditions = [row["sql"].partition(" WHERE ")[2] for row in rows if row["sql"]]
    assert "queue IS 'knocker.events'" in conditions
    assert {column for condition in conditions for column in re.findall(r"(\w+) = '", condition)} == {"state"}
