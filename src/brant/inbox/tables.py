"""The inbox's tables and its named statements, which are in sql/."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from brant.errors import DatabaseBusy, StorageError
from brant.statements import load_statements

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

QUEUE = "knocker.events"
RETENTION_QUEUE = "knocker.events.retention"

R = TypeVar("R")
_UNDONE_FOR_OTHERS = ("40P01", "40001")  # a deadlock; transactions that could not have been one after the other
_MOST_DEADLOCKS = 4
_SQL = os.path.join(os.path.dirname(__file__), "sql")
_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_OWN_SCHEMA = re.compile(r"\bbrant\.(?=\w)")


@functools.cache
def statements(schema: str | None = None) -> dict[str, str]:
    """All of them, by name: for a file, or for that schema of a server."""
    if schema is None:
        return load_statements(os.path.join(_SQL, "sqlite"))
    quoted = '"' + schema.replace('"', '""') + '".'
    found = load_statements(os.path.join(_SQL, "postgres"))
    return {name: _OWN_SCHEMA.sub(lambda _: quoted, sql) for name, sql in found.items()}


def rows(where: Database | Transaction, name: str, *values: object) -> list[dict[str, Any]]:
    """Run a named statement: a read on a Database, either on a Transaction."""
    schema = where.schema
    return where.query(statements(schema)[name], values if schema is None else _for_server(values))


def row(where: Database | Transaction, name: str, *values: object) -> dict[str, Any] | None:
    found = rows(where, name, *values)
    return found[0] if found else None


def run(tx: Transaction, name: str, *values: object) -> None:
    """Run a named statement that returns no rows."""
    schema = tx.schema
    tx.execute(statements(schema)[name], values if schema is None else _for_server(values))


def hold(tx: Transaction, *names: str) -> None:
    """Until the commit, whoever else wants to hold one of these waits. Several at once, so that all go by one order.

    In a file there is one writer at a time anyway.
    """
    if names and tx.schema is not None:
        rows(tx, "hold", json.dumps(names))


def is_deadlock(error: BaseException) -> bool:
    """Whether the server undid a transaction so that another one could go on: there is nothing wrong with it."""
    return getattr(error.__cause__, "sqlstate", None) in _UNDONE_FOR_OTHERS


def written(db: Database, work: Callable[[Transaction], R], *, wait: bool = True) -> R:
    """Do it in a transaction, and once more where the server undid that for another one."""
    for _ in range(_MOST_DEADLOCKS):
        try:
            with db.transaction(wait=wait) as tx:
                return work(tx)
        except DatabaseBusy as error:
            if not is_deadlock(error):
                raise
    with db.transaction(wait=wait) as tx:
        return work(tx)


def order_of(endpoint_id: int, ordering_key: str) -> str:
    """What to hold while it is found out which event of the key is the next."""
    return f"order:{endpoint_id}:{ordering_key}"


def refusals_of(endpoint_id: int) -> str:
    """What to hold while something that the endpoint refused is kept and counted."""
    return f"refusals:{endpoint_id}"


def _for_server(values: Sequence[object]) -> list[object]:
    """A text of a server holds no NUL; what a sender or a handler wrote may."""
    return [value.replace("\0", "\\x00") if isinstance(value, str) else value for value in values]


def run_for_each(tx: Transaction, names: Iterable[str], *values: object) -> None:
    for name in names:
        run(tx, name, *values)


def prepare(db: Database) -> None:
    """Make what is missing; a file that Knocker made keeps all that it has."""
    if rows(db, "is_prepared"):
        return
    with db.transaction() as tx:
        hold(tx, "tables")
        if not rows(tx, "is_prepared"):
            make(tx)


def make(tx: Transaction) -> None:
    """As `prepare`, in a transaction of the caller's."""
    if rows(tx, "has_old_layout"):
        raise StorageError(
            "the inbox tables have the layout of an old Knocker, with signatures on events: "
            "move them to the layout of its newest version first"
        )
    run_for_each(tx, making(tx.schema))


def has_inbox(db: Database) -> bool:
    """Whether there is one in the file, Brant's or Knocker's; makes nothing."""
    return bool(rows(db, "has_events_table"))


def table_names() -> list[str]:
    """All tables of the inbox, for a dump."""
    return [found[1] for name in making() if (found := _TABLE.match(statements()[name]))]


def making(schema: str | None = None, prefix: str = "make_") -> list[str]:
    """The names of the statements that make what is missing, in order."""
    return sorted(name for name in statements(schema) if name.startswith(prefix))
