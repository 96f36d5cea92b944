"""Finding the driver's connection inside what the caller passes as ``tx=``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def connection_inside(given: object) -> object:
    """What an SQLAlchemy or Django connection holds; None of anything else.

    Neither framework is imported: their objects are known by the module that their class comes from.
    """
    # By the whole ancestry, since applications derive their own session classes.
    frameworks = {ancestor.__module__.partition(".")[0] for ancestor in type(given).__mro__}
    if "sqlalchemy" in frameworks:
        return _inside_sqlalchemy(given)
    return _inside_django(given) if "django" in frameworks else None


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
