"""Making and migrating the tables."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from brant.errors import StorageError
from brant.storage.session import Session
from brant.storage.sqlite.connection import FOLDER, SqliteSession

SCHEMA_VERSION = 2


def prepare(session: SqliteSession) -> None:
    """Make sure that the file has this version's tables: one read when it has."""
    if schema_version(session) < SCHEMA_VERSION:
        with session.savepoint() if session.connection.in_transaction else _transaction(session):
            bootstrap(session)


@contextmanager
def _transaction(session: SqliteSession) -> Iterator[None]:
    session.execute("BEGIN IMMEDIATE")
    try:
        yield
        session.execute("COMMIT")
    except BaseException:
        if session.connection.in_transaction:
            session.execute("ROLLBACK")
        raise


def schema_version(session: SqliteSession) -> int:
    """The version of the file's tables, 0 for none; refuses a file of a newer Brant."""
    try:
        version = int(session.value("schema_version", {}) or 0)
    except StorageError as error:
        if "no such table" not in str(error):
            raise
        return 0
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"the file was made by a newer Brant (tables of version {version}, this one knows {SCHEMA_VERSION}): "
            "upgrade Brant"
        )
    return version


def bootstrap(session: SqliteSession) -> None:
    """Make what is missing, inside the transaction that is open; harmless when nothing is."""
    schema_version(session)
    for statement in schema_statements():
        session.execute(statement)
    columns = {row[0] for row in session.rows("schedule_table_columns", {})}
    for column in {"enabled", "max_attempts"} - columns:
        session.changed(f"add_schedule_{column}", {})
    session.changed("set_schema_version", {"version": str(SCHEMA_VERSION)})


def schema_statements() -> Iterator[str]:
    statement = ""
    with open(os.path.join(FOLDER, "schema.sql"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("--"):
            continue
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def retire_old_layout(session: Session) -> None:
    """Take the jobs of an early Honker file over into today's table, and drop the old ones."""
    old = {row[0].removeprefix("_honker_") for row in session.rows("old_layout", {})}
    for table in sorted(old):
        session.changed(f"rescue_old_{table}", {})
        session.changed(f"drop_old_{table}", {})
    for number in range(1, 5):
        session.changed(f"drop_old_index_{number}", {})
