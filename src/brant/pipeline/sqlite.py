"""What planning asks of an SQLite file: bounds, names, positions. Short reads through Python's own sqlite3."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from brant.pipeline.errors import PipelineError
from brant.pipeline.shelf import NoTables, Shelf
from brant.pipeline.tables import Table, statement
from brant.pipeline.tenants import require_file

_BUSY_TIMEOUT_S = 30


def read_only_uri(path: str) -> str:
    """Never creates the file, and never checkpoints: that is left to the application."""
    return f"file:{quote(os.path.abspath(path))}?mode=ro"


def connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(
        read_only_uri(path), uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_S
    )


@contextmanager
def in_one_line(path: str) -> Iterator[None]:
    """What SQLite says about a file as one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        require_file(path)
        text = str(error)
        if "no such table: knocker_" in text or "no such table: _brant_inbox_" in text:
            raise NoTables(f"{path} has no inbox: nothing was received there") from None
        if "no such table" in text:
            raise NoTables(f"{path} has no Brant tables ({text}); make them with 'brant init'") from None
        if "not a database" in text:
            raise PipelineError(f"{path} is not an SQLite database") from None
        raise PipelineError(f"{path} cannot be read: {text}") from None


class SqliteShelf(Shelf):
    """One file."""

    def __init__(self, path: str, table: Table) -> None:
        super().__init__(table)
        self._path = path
        require_file(path)
        with in_one_line(path):
            self._connection = connect(path)

    def close(self) -> None:
        self._connection.close()

    def ask(self, statement_name: str, /, **params: object) -> list[Any]:
        with in_one_line(self._path):
            return self._connection.execute(statement(statement_name), params).fetchall()
