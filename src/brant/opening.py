"""Opening a database, and what is done to one that is not open."""

from __future__ import annotations

import os
import sqlite3
from functools import partial

from brant.arguments import seconds, whole
from brant.clock import Clock
from brant.config import SYNC_MODES, Settings, is_address, resolve
from brant.database import Database
from brant.errors import InvalidValue, StorageError
from brant.storage.sqlite.backend import SqliteStorage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Literal

_WATCHERS: dict[str | None, Literal["auto", "poll"]] = {
    None: "auto",
    "kernel": "auto",
    "kernel-watcher": "auto",
    "poll": "poll",
    "polling": "poll",
}


def open(  # noqa: A001
    path: str | os.PathLike[str] | None = None,
    max_readers: int = 8,
    watcher_backend: str | None = None,
    watcher_poll_interval_ms: float | None = None,
    *,
    synchronous: str | None = None,
    busy_timeout_ms: int | None = None,
    max_message_bytes: int | None = None,
    create: bool = True,
    clock: Clock | None = None,
    schema: str | None = None,
) -> Database:
    """Open the database of that path, making the file (for its owner only) and the tables where they are missing.

    Without a path it is the project's own: the one that the environment or the project file names (see brant.config).
    What is not given is taken from the environment too: BRANT_SYNC_MODE, BRANT_BUSY_TIMEOUT, BRANT_MAX_MESSAGE_SIZE.
    ":memory:" is a private temporary file, deleted at close. `synchronous="FULL"` makes every commit survive a power
    cut; the default, NORMAL, survives every crash of a program and may lose the last commits in a power cut.

    A path such as "postgresql://user@host/database" is a database on a server, with the tables in a `schema` of their
    own ("brant"). Time is the server's there, and so is what survives what; but with `synchronous="FULL"` a commit
    waits for the server's disk even where the server does not by itself, and with "OFF" it does not.
    """
    settings = Settings()
    if path is None:
        project = resolve(settings=settings)
        path, create = project.path, create and not project.must_exist
    target = os.fspath(path)
    if not isinstance(target, str) or not target or "\0" in target:
        raise InvalidValue(f"path must be the name of a file, not {path!r}")
    on_server = is_address(target)
    if "://" in target and not target.startswith("file:") and not on_server:
        raise InvalidValue(
            f"{target.partition('://')[0]!r} databases are not supported; pass the path of an SQLite file, "
            "or postgresql://user@host/database"
        )
    if schema is not None and not on_server:
        raise InvalidValue("schema= is for databases on a server; a file has none")
    if watcher_backend not in _WATCHERS:
        raise InvalidValue(f"unknown watcher backend {watcher_backend!r}; use None, 'kernel' or 'poll'")
    durability = str(settings.sync_mode if synchronous is None else synchronous).upper()
    if durability not in SYNC_MODES:
        raise InvalidValue(f"synchronous must be one of {', '.join(SYNC_MODES)}, not {synchronous!r}")
    patience_ms = settings.busy_timeout_ms if busy_timeout_ms is None else busy_timeout_ms
    poll_ms = watcher_poll_interval_ms
    largest = settings.max_message_size if max_message_bytes is None else max_message_bytes
    checked_largest = whole(largest, "max_message_bytes", minimum=1)
    poll_s = None if poll_ms is None else seconds(poll_ms, "watcher_poll_interval_ms", above=0) / 1000
    most, patience_ms = whole(max_readers, "max_readers", minimum=1), whole(patience_ms, "busy_timeout_ms", minimum=0)
    again = partial(
        open,
        max_readers=most,
        watcher_backend=watcher_backend,
        watcher_poll_interval_ms=watcher_poll_interval_ms,
        busy_timeout_ms=patience_ms,
        max_message_bytes=checked_largest,
    )
    if on_server:
        postgres = _postgres_backend()
        storage = postgres.PostgresStorage(
            target,
            clock=clock,
            schema=schema,
            max_connections=most,
            busy_timeout_ms=patience_ms,
            notify=_WATCHERS[watcher_backend] == "auto",
            poll_s=poll_s,
            create=create,
            synchronous=durability,
        )
        # Not by its path, which has no password in it.
        return Database(storage, partial(again, target, clock=clock, schema=schema), None, checked_largest)
    open_storage = partial(
        SqliteStorage,
        clock=clock or Clock(),
        max_readers=most,
        busy_timeout_ms=patience_ms,
        synchronous=durability,
        watcher=_WATCHERS[watcher_backend],
        poll_s=poll_s,
        create=create,
    )
    temporary = _temporary_directory() if target == ":memory:" else None
    made = open_storage(target if temporary is None else f"{temporary}/memory.db")
    return Database(made, partial(again, made.target, clock=made.clock), temporary, checked_largest)


def _postgres_backend() -> ModuleType:
    try:
        import brant.storage.postgres.backend
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "psycopg":
            raise
        raise StorageError("a database on a server needs psycopg: pip install 'brant[postgres]'") from error
    return brant.storage.postgres.backend


def remove(path: str | os.PathLike[str]) -> bool:
    """Delete a database that nobody has open; False when it holds other tables and only Brant's were dropped.

    On a server, the schema of Brant's tables is dropped.
    """
    if is_address(os.fspath(path)):
        from brant.storage.postgres.upkeep import remove as remove_schema

        return remove_schema(os.fspath(path))
    from brant.storage.sqlite.upkeep import remove as remove_file

    return remove_file(os.fspath(path))


def attach(connection: sqlite3.Connection, clock: Clock | None = None) -> None:
    """Register the SQL functions on a plain connection, so that `SELECT honker_enqueue(...)` works in SQL.

    Makes the tables where they are missing. Each function is atomic, in autocommit too, and commits with the
    transaction that it is called in.
    """
    if not isinstance(connection, sqlite3.Connection):
        raise TypeError(f"attach() takes a sqlite3.Connection, not {type(connection).__name__}")
    from brant.storage.sqlite.functions import attach as attach_functions

    attach_functions(connection, clock or Clock())


def _temporary_directory() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="brant-")
