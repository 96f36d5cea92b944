"""The inbox's tables and its named statements, which are in sql/."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from brant.errors import StorageError
from brant.statements import load_statements

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

QUEUE = "knocker.events"
RETENTION_QUEUE = "knocker.events.retention"

_FOLDER = os.path.join(os.path.dirname(__file__), "sql", "sqlite")
_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")


def statements() -> dict[str, str]:
    """All of them, by name."""
    return load_statements(_FOLDER)


def rows(where: Database | Transaction, name: str, *values: object) -> list[dict[str, Any]]:
    """Run a named statement: a read on a Database, either on a Transaction."""
    return where.query(statements()[name], values)


def row(where: Database | Transaction, name: str, *values: object) -> dict[str, Any] | None:
    found = rows(where, name, *values)
    return found[0] if found else None


def run(tx: Transaction, name: str, *values: object) -> None:
    """Run a named statement that returns no rows."""
    tx.execute(statements()[name], values)


def run_for_each(tx: Transaction, names: Iterable[str], *values: object) -> None:
    for name in names:
        run(tx, name, *values)


def prepare(db: Database) -> None:
    """Make what is missing; a file that Knocker made keeps all that it has."""
    if rows(db, "is_prepared"):
        return
    with db.transaction() as tx:
        make(tx)


def make(tx: Transaction) -> None:
    """As `prepare`, in a transaction of the caller's."""
    if rows(tx, "has_old_layout"):
        raise StorageError(
            "the inbox tables have the layout of an old Knocker, with signatures on events: "
            "move them to the layout of its newest version first"
        )
    run_for_each(tx, _making())


def has_inbox(db: Database) -> bool:
    """Whether there is one in the file, Brant's or Knocker's; makes nothing."""
    return bool(rows(db, "has_events_table"))


def table_names() -> list[str]:
    """All tables of the inbox, for a dump."""
    return [found[1] for name in _making() if (found := _TABLE.match(statements()[name]))]


def _making() -> list[str]:
    return sorted(name for name in statements() if name.startswith("make_"))
