"""A plain connection in autocommit mode with the SQL functions on it, and time that the test moves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import brant
from brant.testing import FakeClock

NOW = 1_700_000_000
Sql = Callable[..., Any]
Plain = Any  # a connection of sqlite3 or of psycopg
REFUSED = (sqlite3.OperationalError, psycopg.Error)


@pytest.fixture
def connection(path: Path, clock: FakeClock, database_kind: str) -> Iterator[Plain]:
    if database_kind == "postgres":
        with psycopg.connect(str(path), autocommit=True, options="-c search_path=brant") as server:
            yield server
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("PRAGMA journal_mode = WAL")
        brant.attach(plain, clock)
        yield plain


@pytest.fixture
def sql(connection: Plain, clock: FakeClock) -> Sql:
    """Calls a function by its name: sql("honker_ack", 1, "w")."""

    def call(function: str, *arguments: object) -> Any:
        mark = "?"
        if isinstance(connection, psycopg.Connection):
            mark = "%s"
            connection.execute("SELECT set_config('brant_clock.now', %s, false)", [str(clock.now())])
        marks = ", ".join([mark] * len(arguments))
        return connection.execute(f"SELECT {function}({marks})", arguments).fetchone()[0]

    return call
