"""The sqlite3 connection inside what the caller passes as ``tx=``."""

from __future__ import annotations

import sqlite3

from brant.errors import TransactionError
from brant.storage.adopt import connection_inside


def sqlite_connection(given: object) -> sqlite3.Connection:
    """The `sqlite3.Connection` behind a plain, SQLAlchemy or Django connection."""
    connection = given if isinstance(given, sqlite3.Connection) else connection_inside(given)
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
