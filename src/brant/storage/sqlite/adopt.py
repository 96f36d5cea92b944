"""Finding the sqlite3 connection inside what the caller passes as ``tx=``."""

from __future__ import annotations

import sqlite3

from brant.errors import TransactionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def sqlite_connection(given: object) -> sqlite3.Connection:
    """The `sqlite3.Connection` behind a plain, SQLAlchemy or Django connection.

    Neither framework is imported: their objects are known by the module that their class comes from.
    """
    if isinstance(given, sqlite3.Connection):
        connection: object = given
    else:
        # By the whole ancestry, since applications derive their own session classes.
        frameworks = {ancestor.__module__.partition(".")[0] for ancestor in type(given).__mro__}
        if "sqlalchemy" in frameworks:
            connection = _inside_sqlalchemy(given)
        else:
            connection = _inside_django(given) if "django" in frameworks else None
    if not isinstance(connection, sqlite3.Connection):
        raise TransactionError(
            f"tx= takes a Brant transaction, or a sqlite3, SQLAlchemy or Django connection, not {type(given).__name__}"
        )
    return connection


def begins_by_itself(connection: sqlite3.Connection) -> bool:
    """Whether the module itself would open a transaction before the caller's next INSERT.

    Not on a connection in autocommit mode: there the caller writes BEGIN.
    """
    autocommit = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
    return not autocommit and not connection.in_transaction


def _inside_sqlalchemy(given: Any) -> object:
    if hasattr(given, "sync_session") or hasattr(given, "sync_connection"):
        return None  # of asyncio's, whose connection lives in a thread of its own
    connection = given.connection() if hasattr(given, "get_bind") else given
    if not hasattr(connection, "in_transaction") or not hasattr(connection, "connection"):
        return None  # an engine or a session factory
    # As its own execute() does: otherwise commit() would find nothing to commit.
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.dbapi_connection


def _inside_django(given: Any) -> object:
    if not hasattr(given, "ensure_connection"):
        return None
    given.ensure_connection()
    return given.connection
