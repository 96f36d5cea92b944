"""The psycopg connection inside what the caller passes as ``tx=``."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from brant.errors import TransactionError
from brant.storage.adopt import connection_inside


def psycopg_connection(given: object) -> psycopg.Connection[Any]:
    """The `psycopg.Connection` behind a plain, SQLAlchemy or Django connection."""
    connection = given if isinstance(given, psycopg.Connection) else connection_inside(given)
    if not isinstance(connection, psycopg.Connection):
        raise TransactionError(
            "tx= takes a Brant transaction, or a psycopg, SQLAlchemy or Django connection to this database, "
            f"not {type(given).__name__}"
        )
    if connection.closed:
        raise TransactionError("the connection passed as tx= is closed")
    if connection.info.transaction_status == TransactionStatus.INERROR:
        raise TransactionError(
            "the transaction of the connection passed as tx= has failed: roll it back before it is used again"
        )
    return connection
