"""Finding the psycopg connection inside what the caller passes as ``tx=``."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from brant.errors import TransactionError


def psycopg_connection(given: object) -> psycopg.Connection[Any]:
    """The `psycopg.Connection` behind a plain, SQLAlchemy or Django connection.

    Neither framework is imported: their objects are known by the module that their class comes from.
    """
    if isinstance(given, psycopg.Connection):
        connection: object = given
    else:
        # By the whole ancestry, since applications derive their own session classes.
        frameworks = {ancestor.__module__.partition(".")[0] for ancestor in type(given).__mro__}
        if "sqlalchemy" in frameworks:
            connection = _inside_sqlalchemy(given)
        else:
            connection = _inside_django(given) if "django" in frameworks else None
    if not isinstance(connection, psycopg.Connection):
        raise TransactionError(
            "tx= takes a Brant transaction, or a psycopg, SQLAlchemy or Django connection to this database, "
            f"not {type(given).__name__}"
        )
    _require_usable(connection)
    return connection


def _require_usable(connection: psycopg.Connection[Any]) -> None:
    if connection.closed:
        raise TransactionError("the connection passed as tx= is closed")
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise TransactionError(
            "the transaction of the connection passed as tx= has failed: roll it back before it is used again"
        )


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
