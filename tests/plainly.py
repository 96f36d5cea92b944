"""Connections that know nothing of Brant: sqlite3's to a file, psycopg's to a server, used in the same way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

import brant


def is_server(path: object) -> bool:
    return str(path).startswith("postgresql:")


class Plain:
    """`tx` is the connection itself, in a transaction from its first statement on, unless it is in autocommit mode."""

    def __init__(self, path: Path, *, autocommit: bool = False) -> None:
        self._is_server = is_server(path)
        self.tx: Any
        if self._is_server:
            self.tx = psycopg.connect(str(path), autocommit=autocommit, options="-c search_path=public,brant")
        else:
            self.tx = sqlite3.connect(path, isolation_level=None if autocommit else "DEFERRED", check_same_thread=False)
        self.commit = self.tx.commit
        self.rollback = self.tx.rollback

    def execute(self, sql: str, params: Sequence[object] = ()) -> None:
        self.tx.execute(sql.replace("?", "%s") if self._is_server else sql, params)


@contextmanager
def plain_connection(path: Path, *, autocommit: bool = False) -> Iterator[Plain]:
    plain = Plain(path, autocommit=autocommit)
    with closing(plain.tx):
        yield plain


_FUNCTION = "CREATE FUNCTION refusing.refuse() RETURNS trigger LANGUAGE plpgsql AS"


@contextmanager
def refusing(db: brant.Database, event: str, table: str, text: str, when: str = "1 = 1") -> Iterator[None]:
    """The database refuses what changes a table: refusing(db, "BEFORE INSERT", "_honker_dead", "cemetery full")."""
    with db.transaction() as tx:
        if is_server(db.path):
            tx.execute("CREATE SCHEMA refusing")
            tx.execute(f"{_FUNCTION} $$ BEGIN RAISE EXCEPTION '{text}'; END $$")
            how = f"FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refusing.refuse()"
        else:
            how = f"WHEN {when} BEGIN SELECT RAISE(ABORT, '{text}'); END"
        tx.execute(f"CREATE TRIGGER refusal {event} ON {table} {how}")
    try:
        yield
    finally:
        with db.transaction() as tx:
            tx.execute("DROP SCHEMA refusing CASCADE" if is_server(db.path) else "DROP TRIGGER refusal")


def note_transactions(db: brant.Database) -> list[object]:
    """Grows with each transaction that the Database begins to write in."""
    storage: Any = db._storage
    begin, begun = storage.transaction, []

    def noted(**options: Any) -> Any:
        begun.append(begin(**options))
        return begun[-1]

    storage.transaction = noted
    return begun
