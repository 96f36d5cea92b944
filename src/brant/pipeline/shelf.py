"""What planning asks of one database, a file or a server: its bounds, names and positions."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from brant.config import is_address
from brant.pipeline.errors import PipelineError
from brant.pipeline.tables import Table


class NoTables(PipelineError):
    """A database in which Brant has not made its tables, or not yet."""


class Shelf(ABC):
    """One database, open for questions about a table; each kind of database has its own statements for them."""

    has_gaps = False
    """Whether numbers can be missing though nothing was deleted: those of transactions that were rolled back."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def ask(self, statement_name: str, /, **params: object) -> Sequence[Any]:
        """The rows of a statement."""

    def of_store(self, question: str, /, **params: object) -> Sequence[Any]:
        """As `ask`, of the append-only table that the rows lie in."""
        return self.ask(f"{self._table.stored_in}_{question}", **params)

    def require_tables(self) -> None:
        if self._table.append_only:
            self.bounds()
        else:
            self.ask(f"{self._table.name}_exists")

    def bounds(self) -> tuple[int | None, int]:
        """The first cursor that is there, and the last that was ever given."""
        first, last = self.of_store("bounds")[0]
        return first, last

    def head(self, names: Sequence[str] | None = None) -> int:  # noqa: ARG002
        """The last cursor that may be read: nothing can come any more at it or before it, of these names."""
        return self.bounds()[1]

    def end(self, names: Sequence[str] | None = None) -> int:
        """The last cursor of a read that ends here and now."""
        return self.head(names)

    def names(self) -> list[str]:
        """The topics, channels or queues in it."""
        store = self._table.stored_in or self._table.name
        return [name for (name,) in self.ask(f"{store}_names") if isinstance(name, str)]

    def first_of(self, name: str, after: int) -> int | None:
        found: int | None = self.of_store("first_of_one", name=name, after=after)[0][0]
        return found

    def count(self, after: int, until: int, names: Sequence[str] | None = None) -> int:
        span = {"after": after, "until": until}
        if names is None:
            counted: int = self.of_store("count", **span)[0][0]
        else:
            counted = self.of_store("count_of_some", names=json.dumps(list(names)), **span)[0][0]
        return counted

    def nth(self, names: Sequence[str] | None, after: int, until: int, rows: int) -> int:
        """The cursor of that many rows behind `after`; `until` where there are no more than that."""
        span = {"after": after, "until": until, "skip": rows - 1}
        if names is None:
            found = self.of_store("nth", **span)
        elif len(names) == 1:
            found = self.of_store("nth_of_one", name=names[0], **span)
        else:
            found = self.of_store("nth_of_some", names=json.dumps(list(names)), **span)
        return found[0][0] if found else until

    def before_time(self, timestamp: float) -> int:
        """The cursor behind which rows are from that time on. By bisection: time has no index, but grows."""
        first, last = self.bounds()
        low, high = (last if first is None else first), last + 1
        while low < high:
            middle = (low + high) // 2
            found = self.of_store("time_at", cursor=middle)
            if not found or found[0][1] >= timestamp:
                high = middle
            else:
                low = found[0][0] + 1
        return low - 1


def open_shelf(path: str, table: Table, *, keep: bool = False) -> Shelf:
    """The database of a path or an address, for questions about a table; see PostgresShelf for `keep`."""
    if is_address(path):
        from brant.pipeline.postgres import PostgresShelf

        return PostgresShelf(path, table, keep=keep)
    from brant.pipeline.sqlite import SqliteShelf

    return SqliteShelf(path, table)
