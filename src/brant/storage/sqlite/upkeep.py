"""What is done to a file as a whole: giving room back, copying it, removing it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from brant.errors import StorageError
from brant.storage.sqlite.connection import STATEMENTS, translated


def compact(connection: sqlite3.Connection) -> None:
    """Rewrite the file without its free pages; waits for nobody and fails while others write."""
    try:
        connection.execute("VACUUM")
    except sqlite3.Error as error:
        raise translated(error) from error


def copy(connection: sqlite3.Connection, destination: str) -> None:
    """A consistent copy of the file, while others go on writing."""
    if not destination:
        raise StorageError("name the file to copy to")
    if Path(destination).exists():
        raise StorageError(f"{destination} exists already; name a new file")
    try:
        _copy(connection, destination)
    except BaseException as error:
        # Half of it would look like a backup.
        Path(destination).unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            raise translated(error) from error
        raise


def _copy(connection: sqlite3.Connection, destination: str) -> None:
    target = sqlite3.connect(destination, isolation_level=None)
    try:
        target.execute("PRAGMA schema_version")
        Path(destination).chmod(0o600)
        connection.backup(target)
    finally:
        target.close()


def remove(path: str) -> bool:
    """Delete the file with its log; where it holds other tables than Brant's, drop Brant's only and tell False."""
    if not Path(path).is_file():
        raise StorageError(f"there is no database at {path}")
    try:
        return _remove(path)
    except StorageError:
        if Path(path).exists():
            raise
        return True  # another one, removing it at the same time, was faster


def _remove(path: str) -> bool:
    try:
        # Must exist: an empty file in the place of one that another removes would be of no use to anybody.
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", isolation_level=None, uri=True)
    except sqlite3.Error as error:
        raise translated(error) from error
    try:
        ours = [(kind, name) for kind, name in connection.execute(STATEMENTS["own_objects"])]
        if "_honker_live" not in [name for _, name in ours]:
            raise StorageError(f"{path} is an SQLite database, but not Brant's: it is left as it is")
        if connection.execute(STATEMENTS["foreign_tables"]).fetchall():
            _drop(connection, ours)
            return False
    except sqlite3.Error as error:
        raise translated(error) from error
    finally:
        connection.close()
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    return True


def _drop(connection: sqlite3.Connection, objects: list[tuple[str, str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for kind, name in objects:
            if kind in ("view", "table"):
                connection.execute(f"DROP {kind} {name}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
