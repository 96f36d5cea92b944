"""What is done to the tables as a whole."""

from __future__ import annotations

import psycopg

from brant.errors import StorageError
from brant.storage.postgres.address import Address
from brant.storage.postgres.connecting import Connector, run
from brant.storage.postgres.errors import translated
from brant.storage.postgres.pool import close


def remove(address: str) -> bool:
    """Drop the schema, or, where others have put tables into it, Brant's own only and tell False."""
    connector = Connector(Address(address), busy_timeout_s=5, clock=None)
    of_schema = {"schema": connector.address.schema}
    connection = connector.connect(patient=True)
    try:
        if not run(connection, connector.statements["has_tables"], {})[0][0]:
            raise StorageError(f"there is nothing of Brant's at {connector.address}: it is left as it is")
        with connection.transaction():
            is_shared = bool(run(connection, connector.statements["foreign_tables"], of_schema))
            for (statement,) in run(connection, connector.statements["drops" if is_shared else "drop"], of_schema):
                connection.execute(statement)
    except psycopg.Error as error:
        raise translated(error) from error
    finally:
        close(connection)
    return not is_shared


def compact(connector: Connector) -> None:
    """Rewrite the tables without their unused room; each is locked while that lasts."""
    connection = connector.connect(patient=True)
    try:
        for (statement,) in run(connection, connector.statements["compactions"], {"schema": connector.address.schema}):
            connection.execute(statement)
    except psycopg.Error as error:
        raise translated(error) from error
    finally:
        close(connection)
