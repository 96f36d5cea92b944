"""What is wrong with a file, or may become so."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable

from brant.errors import BrantError, StorageError
from brant.storage.health import Health, neglected
from brant.storage.session import Session
from brant.storage.sqlite.wake import FileWatch

# The versions in which two connections can corrupt the log when one restarts it while the other checkpoints.
_LOG_RACE_FIXED = (3, 51, 3)
_LARGE_LOG = 64 * 1024 * 1024
_OTHER_SQLITE_MODULES = ("apsw", "pysqlite3", "pysqlcipher3", "sqlcipher3")


def examine(session: Session, path: str, watch: FileWatch, log_is_pinned: Callable[[], bool] | None = None) -> Health:
    """A quick look; with `log_is_pinned`, a thorough one that reads the whole file."""
    journal_mode = session.query("PRAGMA journal_mode", ())[0]["journal_mode"]
    # Before the log is measured: it empties the log if it can.
    found = [] if log_is_pinned is None else _thorough_problems(session, log_is_pinned)
    log_bytes = file_size(path + "-wal")
    parked = [schedule.name for schedule in session.list_schedules() if schedule.error]
    problems = []
    try:
        watch.check_file()
    except BrantError as error:
        problems.append(str(error))
    if journal_mode != "wal":
        problems.append(f"the journal mode is {journal_mode}, not WAL: readers and writers block each other")
    if log_bytes > _LARGE_LOG:
        problems.append(
            f"the write-ahead log has {log_bytes} bytes: some connection keeps an old snapshot open; find and end it"
        )
    if trouble := watch.failure or watch.degraded:
        problems.append(f"wake-ups are degraded: {trouble}")
    problems += [f"the schedule {name!r} is parked; update or re-add it" for name in parked]
    problems += [
        f"the table {table} of an early Honker could not be taken over; move its rows to _honker_live, and drop it"
        for (table,) in session.rows("old_layout", {})
    ]
    return Health(
        problems=(*problems, *found),
        warnings=tuple(_warnings()),
        facts={
            "path": path,
            "sqlite_version": sqlite3.sqlite_version,
            "journal_mode": journal_mode,
            "database_bytes": file_size(path),
            "log_bytes": log_bytes,
            "watcher": watch.mode,
        },
    )


def _thorough_problems(session: Session, log_is_pinned: Callable[[], bool]) -> list[str]:
    problems = [
        f"the file is damaged: {found}; restore a backup, or save what can be read with 'brant dump'"
        for found in _damage(session)
    ]
    if problems:
        return problems  # to look further would fail, or tell what is not so
    if log_is_pinned():
        problems.append("a connection keeps an old snapshot open, so that the log can't be emptied; find and end it")
    return [*problems, *neglected(session)]


def _damage(session: Session) -> list[str]:
    try:
        return [found for (found,) in session.rows("damage", {})]
    except StorageError as error:  # too bad for the check itself
        return [str(error.__cause__)]


def _warnings() -> list[str]:
    warnings = []
    if sqlite3.sqlite_version_info < _LOG_RACE_FIXED and sqlite3.sqlite_version_info != (3, 50, 7):
        warnings.append(
            f"SQLite {sqlite3.sqlite_version} has a rare race that can damage the log; Brant checkpoints under the "
            "write lock to avoid it, other programs on the file may not: use SQLite 3.51.3 or later"
        )
    others = [name for name in _OTHER_SQLITE_MODULES if name in sys.modules]
    if others:
        warnings.append(
            f"a second SQLite library is loaded ({', '.join(others)}): if it opens this file in this process, locks "
            "and then commits are lost; use Python's own sqlite3 for it"
        )
    return warnings


def file_size(path: str) -> int:
    """Bytes of a file, 0 when there is none; asked of the directory, for the file itself may not be opened."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
