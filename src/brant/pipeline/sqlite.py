"""What planning asks of an SQLite file: bounds, names, positions. Short reads through Python's own sqlite3."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self
from urllib.parse import quote

from brant.pipeline.errors import PipelineError
from brant.pipeline.tables import Table, statement
from brant.pipeline.tenants import require_file

_BUSY_TIMEOUT_S = 30


class NoTables(PipelineError):
    """An SQLite file in which Brant has not made its tables, or not yet."""


class Shelf(Protocol):
    """What a planner asks of one database, whichever kind it is."""

    def bounds(self) -> tuple[int | None, int]: ...
    def names(self) -> list[str]: ...
    def first_of(self, name: str, after: int) -> int | None: ...
    def count(self, after: int, until: int) -> int: ...
    def nth(self, names: Sequence[str] | None, after: int, until: int, rows: int) -> int: ...
    def before_time(self, timestamp: float) -> int: ...


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
        if "no such table: knocker_" in text:
            raise NoTables(f"{path} has no inbox: nothing was received there") from None
        if "no such table" in text:
            raise NoTables(f"{path} has no Brant tables ({text}); make them with 'brant init'") from None
        if "not a database" in text:
            raise PipelineError(f"{path} is not an SQLite database") from None
        raise PipelineError(f"{path} cannot be read: {text}") from None


class SqliteShelf:
    """One file, open for planning."""

    def __init__(self, path: str, table: Table) -> None:
        self._path = path
        self._table = table
        require_file(path)
        with in_one_line(path):
            self._connection = connect(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _ask(self, statement_name: str, /, **params: object) -> list[Any]:
        with in_one_line(self._path):
            return self._connection.execute(statement(statement_name), params).fetchall()

    def _of_store(self, question: str, /, **params: object) -> list[Any]:
        return self._ask(f"{self._table.stored_in}_{question}", **params)

    def require_tables(self) -> None:
        if self._table.append_only:
            self.bounds()
        else:
            self._ask(f"{self._table.name}_exists")

    def bounds(self) -> tuple[int | None, int]:
        """The first cursor that is there, and the last that was ever given."""
        first, last = self._of_store("bounds")[0]
        return first, last

    def names(self) -> list[str]:
        """The topics, channels or queues in it."""
        store = self._table.stored_in or self._table.name
        return [name for (name,) in self._ask(f"{store}_names") if isinstance(name, str)]

    def first_of(self, name: str, after: int) -> int | None:
        found: int | None = self._of_store("first_of_one", name=name, after=after)[0][0]
        return found

    def count(self, after: int, until: int, names: Sequence[str] | None = None) -> int:
        span = {"after": after, "until": until}
        if names is None:
            counted: int = self._of_store("count", **span)[0][0]
        else:
            counted = self._of_store("count_of_some", names=json.dumps(list(names)), **span)[0][0]
        return counted

    def nth(self, names: Sequence[str] | None, after: int, until: int, rows: int) -> int:
        """The cursor of that many rows behind `after`; `until` where there are no more than that."""
        span = {"after": after, "until": until, "skip": rows - 1}
        if names is None:
            found = self._of_store("nth", **span)
        elif len(names) == 1:
            found = self._of_store("nth_of_one", name=names[0], **span)
        else:
            found = self._of_store("nth_of_some", names=json.dumps(list(names)), **span)
        return found[0][0] if found else until

    def before_time(self, timestamp: float) -> int:
        """The cursor behind which rows are from that time on. By bisection: time has no index, but grows."""
        first, last = self.bounds()
        low, high = (last if first is None else first), last + 1
        while low < high:
            middle = (low + high) // 2
            found = self._of_store("time_at", cursor=middle)
            if not found or found[0][1] >= timestamp:
                high = middle
            else:
                low = found[0][0] + 1
        return low - 1
