"""Finding the sqlite3 connection inside what the caller passes as ``tx=``."""

from __future__ import annotations

import sqlite3
from typing import Any

from brant.errors import TransactionError


def sqlite_connection(given: object) -> sqlite3.Connection:
    """The `sqlite3.Connection` behind a plain, SQLAlchemy or Django connection, its transaction begun where it has one.

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
    _begin_where_implicit(connection)
    return connection


def _inside_sqlalchemy(given: Any) -> object:
    connection = given.connection() if hasattr(given, "get_bind") else given
    # As its own execute() does: otherwise commit() would find nothing to commit.
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.dbapi_connection


def _inside_django(given: Any) -> object:
    given.ensure_connection()
    return given.connection


def _begin_where_implicit(connection: sqlite3.Connection) -> None:
    """Open the transaction that the module itself would open before the caller's first INSERT.

    A connection in autocommit mode is left alone: there the caller writes BEGIN.
    """
    autocommit = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
    if not autocommit and not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")
