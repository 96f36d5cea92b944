"""Opening a database, and what is done to one that is not open."""

from __future__ import annotations

import os
import sqlite3
from functools import partial

from brant.arguments import seconds, whole
from brant.clock import Clock
from brant.config import SYNC_MODES, Settings, resolve
from brant.database import Database
from brant.errors import InvalidValue
from brant.storage.sqlite.backend import SqliteStorage

TYPE_CHECKING = False
if TYPE_CHECKING:
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
) -> Database:
    """Open the database of that path, making the file (for its owner only) and the tables where they are missing.

    Without a path it is the project's own: the one that the environment or the project file names (see brant.config).
    What is not given is taken from the environment too: BRANT_SYNC_MODE, BRANT_BUSY_TIMEOUT, BRANT_MAX_MESSAGE_SIZE.
    ":memory:" is a private temporary file, deleted at close. `synchronous="FULL"` makes every commit survive a power
    cut; the default, NORMAL, survives every crash of a program and may lose the last commits in a power cut.
    """
    settings = Settings()
    if path is None:
        project = resolve(settings=settings)
        path, create = project.path, create and not project.must_exist
    target = os.fspath(path)
    if not isinstance(target, str) or not target or "\0" in target:
        raise InvalidValue(f"path must be the name of a file, not {path!r}")
    if "://" in target and not target.startswith("file:"):
        raise InvalidValue(
            f"{target.partition('://')[0]!r} databases are not supported; pass the path of an SQLite file"
        )
    if watcher_backend not in _WATCHERS:
        raise InvalidValue(f"unknown watcher backend {watcher_backend!r}; use None, 'kernel' or 'poll'")
    durability = str(settings.sync_mode if synchronous is None else synchronous).upper()
    if durability not in SYNC_MODES:
        raise InvalidValue(f"synchronous must be one of {', '.join(SYNC_MODES)}, not {synchronous!r}")
    patience_ms = settings.busy_timeout_ms if busy_timeout_ms is None else busy_timeout_ms
    poll_ms = watcher_poll_interval_ms
    largest = settings.max_message_size if max_message_bytes is None else max_message_bytes
    checked_largest = whole(largest, "max_message_bytes", minimum=1)
    open_storage = partial(
        SqliteStorage,
        clock=clock or Clock(),
        max_readers=whole(max_readers, "max_readers", minimum=1),
        busy_timeout_ms=whole(patience_ms, "busy_timeout_ms", minimum=0),
        synchronous=durability,
        watcher=_WATCHERS[watcher_backend],
        poll_s=None if poll_ms is None else seconds(poll_ms, "watcher_poll_interval_ms", above=0) / 1000,
        create=create,
    )
    if target != ":memory:":
        return Database(open_storage(target), None, checked_largest)
    temporary = _temporary_directory()
    return Database(open_storage(f"{temporary}/memory.db"), temporary, checked_largest)


def remove(path: str | os.PathLike[str]) -> bool:
    """Delete a database that nobody has open; False when it holds other tables and only Brant's were dropped."""
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
