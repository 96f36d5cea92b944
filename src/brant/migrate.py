"""Moving everything from one database into another, of whatever kind, in steps that can be taken up again.

Rows are copied in the order of a dump, some thousands a transaction, each with a note of how far it is. A migration
that was broken off goes on from its note, provided that the source is still as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

from brant.arguments import storable
from brant.errors import BrantError, StorageError
from brant.transfer import further_names, make_further, require_empty, row_counts, tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from brant.database import Database
    from brant.storage.session import Session
    from brant.storage.transfer import FurtherTable

_ROWS_A_STEP = 2000

Progress = Callable[[str, int, int], object]


def migrate(source: Database, destination: Database, progress: Progress | None = None) -> dict[str, int]:
    """Copy all of `source` into `destination`, which is empty or holds part of the same; tells the rows by table.

    Nobody may use either meanwhile: stop the application first. `progress` is called with a table's name, how many of
    its rows are copied, and how many there are.
    """
    for db in (source, destination):
        db._storage.retire_old_layout()
    with source._storage.snapshot() as session:
        if session.has_old_layout():
            raise StorageError("jobs of an early Honker could not be taken over and would be missing; see db.health()")
        return _Migration(session, destination, progress or _tell_nobody).run()


def _tell_nobody(table: str, copied: int, of: int) -> None:
    """For callers who do not want to know."""


class _Migration:
    def __init__(self, source: Session, destination: Database, progress: Progress) -> None:
        self._source = source
        self._destination = destination
        self._progress = progress
        self._further = _in_order(source.further_tables(further_names()))
        self._counts = row_counts(source, self._further)
        self._last_ids = source.last_ids()
        self._copied: dict[str, int] = {}

    def run(self) -> dict[str, int]:
        self._begin()
        for table, columns, read in tables(self._source, self._further):
            with closing(read()) as rows:
                self._copy(table, columns, rows)
        self._finish()
        return self._counts

    def _fingerprint(self) -> dict[str, object]:
        """What is the same as long as nobody has written to the source."""
        return {"counts": self._counts, "last_ids": self._last_ids}

    def _begin(self) -> None:
        with self._destination.transaction() as tx:
            session = tx.session()
            make_further(tx, self._further)
            note = session.migration_note()
            if note is None:
                found = session.further_tables(further_names())
                require_empty(session, found, self._destination.path)
                self._save_note(session)
                return
        begun = json.loads(note)
        if begun["source"] != self._fingerprint():
            raise StorageError(
                f"{self._destination.path} holds part of a migration, and the source has changed since then: "
                "drop what was copied, and begin again with nobody writing to the source"
            )
        self._copied = begun["copied"]

    def _save_note(self, session: Session) -> None:
        session.save_migration_note(json.dumps({"source": self._fingerprint(), "copied": self._copied}))

    def _copy(self, table: str, columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
        total, copied = self._counts[table], self._copied.get(table, 0)
        self._progress(table, copied, total)
        ahead = islice(rows, copied, None)
        while step := [dict(zip(columns, row, strict=True)) for row in islice(ahead, _ROWS_A_STEP)]:
            with self._destination.transaction() as tx:
                session = tx.session()
                self._load(session, table, step)
                self._copied[table] = copied = copied + len(step)
                self._save_note(session)
            self._progress(table, copied, total)

    def _load(self, session: Session, table: str, step: list[dict[str, object]]) -> None:
        further = session.further_tables([table]).get(table) if table in self._further else None
        for row in step:
            try:
                if further is None:
                    session.load_row(table, row)
                else:
                    session.load_further_row(further, row)
            except BrantError as error:
                raise type(error)(f"{_named(table, row)} can't be stored there: {error}") from error

    def _finish(self) -> None:
        with self._destination.transaction() as tx:
            session = tx.session()
            further = session.further_tables(further_names())
            there = row_counts(session, further)
            wrong = [
                f"{table}: {there.get(table, 0)} in place of {count}"
                for table, count in self._counts.items()
                if there.get(table, 0) != count
            ]
            if wrong:
                raise StorageError(
                    f"the copy has other counts ({', '.join(wrong)}): somebody has used it meanwhile; begin again"
                )
            for table, last_id in self._last_ids.items():
                session.raise_last_id(table, last_id)
            for name, source in self._further.items():
                if source.last_id is not None:
                    session.raise_last_id(name, source.last_id, prefix="")
            session.forget_migration_note()


def _in_order(further: dict[str, FurtherTable]) -> dict[str, FurtherTable]:
    """Each table behind those that its rows refer to."""
    return {name: further[name] for name in further_names() if name in further}


def _named(table: str, row: dict[str, object]) -> str:
    column, value = next(iter(row.items()))
    return storable(f"the row of {table} whose {column} is {value!r}")
