"""Making and migrating the tables."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors

from brant.errors import StorageError
from brant.storage.postgres.connecting import run
from brant.storage.postgres.errors import REFUSALS, translated
from brant.storage.postgres.sql import quoted, schema_scripts, statements_of

SCHEMA_VERSION = 1


def prepare(connection: psycopg.Connection[Any], schema: str) -> None:
    """Make sure that the schema has this version's tables: one read when it has."""
    try:
        if schema_version(connection, schema) < SCHEMA_VERSION:
            with connection.transaction():
                run(connection, statements_of(schema)["lock_schema"], {"schema": schema})
                bootstrap(connection, schema)
    except REFUSALS as error:
        raise translated(error) from error


def schema_version(connection: psycopg.Connection[Any], schema: str) -> int:
    """The version of the schema's tables, 0 for none; refuses one of a newer Brant."""
    try:
        with connection.transaction():
            found = run(connection, statements_of(schema)["schema_version"], {})
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    version = int(found[0][0]) if found else 0
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"the schema {schema!r} was made by a newer Brant (tables of version {version}, this one knows "
            f"{SCHEMA_VERSION}): upgrade Brant"
        )
    return version


def bootstrap(connection: psycopg.Connection[Any], schema: str) -> None:
    """Make what is missing, inside the transaction that is open; harmless when nothing is."""
    if schema_version(connection, schema) == SCHEMA_VERSION:
        return  # another one was faster
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    for script in schema_scripts(schema):
        connection.execute(script)
    run(connection, statements_of(schema)["set_schema_version"], {"version": str(SCHEMA_VERSION)})
