"""Making and migrating the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from brant.errors import StorageError
from brant.storage.session import Session
from brant.storage.sqlite.connection import FOLDER, SqliteSession

SCHEMA_VERSION = 1


def prepare(session: SqliteSession) -> None:
    """Make sure that the file has this version's tables: one read when it has."""
    if schema_version(session) < SCHEMA_VERSION:
        session.execute("BEGIN IMMEDIATE")
        try:
            bootstrap(session)
        except BaseException:
            session.execute("ROLLBACK")
            raise
        session.execute("COMMIT")


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
    for statement in schema_statements():
        session.execute(statement)
    columns = {row[0] for row in session.rows("schedule_table_columns", {})}
    for column in {"enabled", "max_attempts"} - columns:
        session.changed(f"add_schedule_{column}", {})
    session.changed("set_schema_version", {"version": str(SCHEMA_VERSION)})


def schema_statements() -> Iterator[str]:
    statement = ""
    for line in (FOLDER / "schema.sql").read_text("utf-8").splitlines():
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
