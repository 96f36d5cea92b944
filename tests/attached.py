"""A plain connection in autocommit mode with the SQL functions on it, and time that the test moves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock

NOW = 1_700_000_000
Sql = Callable[..., Any]


@pytest.fixture
def connection(path: Path, clock: FakeClock) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("PRAGMA journal_mode = WAL")
        brant.attach(plain, clock)
        yield plain


@pytest.fixture
def sql(connection: sqlite3.Connection) -> Sql:
    """Calls a function by its name: sql("honker_ack", 1, "w")."""

    def call(function: str, *arguments: object) -> Any:
        marks = ", ".join("?" * len(arguments))
        return connection.execute(f"SELECT {function}({marks})", arguments).fetchone()[0]

    return call
