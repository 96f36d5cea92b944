"""Verbs of a dump: every table as it is, out of one database and into another."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping

from brant.arguments import storable
from brant.storage.base import Row, Statements
from brant.storage.rows import NamedTuple

# The tables, without their prefix, and their columns, both in the order of a dump.
TABLES: dict[str, tuple[str, ...]] = {
    "queues": ("name", "paused", "events"),
    "aliases": ("alias", "target"),
    "live": (
        "id",
        "queue",
        "payload",
        "state",
        "priority",
        "run_at",
        "worker_id",
        "claim_expires_at",
        "attempts",
        "max_attempts",
        "created_at",
        "expires_at",
    ),
    "dead": (
        "id",
        "queue",
        "payload",
        "priority",
        "run_at",
        "attempts",
        "max_attempts",
        "last_error",
        "created_at",
        "died_at",
    ),
    "attempts": ("job_id", "attempt", "worker_id", "error", "failed_at"),
    "unique": ("queue", "key", "job_id", "expires_at"),
    "limits": ("queue", "key", "max_running", "max_starts", "per_s", "wake_at", "forget_at"),
    "limited": ("job_id", "queue", "key", "running", "priority", "run_at"),
    "starts": ("queue", "key", "number", "started_at"),
    "batches": (
        "id",
        "note",
        "then_queue",
        "then_payload",
        "then_path",
        "then_priority",
        "then_max_attempts",
        "then_expires_s",
        "then_job_id",
        "total",
        "succeeded",
        "dead",
        "cancelled",
        "sealed",
        "settled",
        "created_at",
        "settled_at",
        "keep_s",
    ),
    "batch_jobs": ("job_id", "batch_id", "state"),
    "results": ("job_id", "value", "created_at", "expires_at"),
    "stream": ("offset", "topic", "key", "payload", "created_at"),
    "stream_consumers": ("name", "topic", "offset"),
    "notifications": ("id", "channel", "payload", "created_at"),
    "scheduler_tasks": (
        "name",
        "queue",
        "cron_expr",
        "payload",
        "priority",
        "expires_s",
        "next_fire_at",
        "enabled",
        "max_attempts",
    ),
    "schedules": ("name", "tz", "missed", "last_fire_at", "error"),
    "locks": ("name", "owner", "expires_at"),
    "rate_limits": ("name", "window_start", "count"),
}
# Those that never give an id out twice, not even that of a row that is gone.
NUMBERED_TABLES = ("live", "notifications", "stream")

_TEXT_COLUMNS = frozenset(
    {
        "alias",
        "channel",
        "cron_expr",
        "error",
        "key",
        "last_error",
        "missed",
        "name",
        "note",
        "owner",
        "payload",
        "queue",
        "state",
        "target",
        "then_path",
        "then_payload",
        "then_queue",
        "topic",
        "tz",
        "value",
        "worker_id",
    }
)


class FurtherTable(NamedTuple):
    """A table of a part that is built on Brant, and the statements that count, read and fill it."""

    name: str
    columns: tuple[str, ...]
    last_id: int | None
    count_sql: str
    dump_sql: str
    load_sql: str


class TransferVerbs(Statements):
    def has_old_layout(self) -> bool:
        """Whether there are jobs in tables of earlier systems, which could not be taken over."""
        return bool(self.rows("old_layout", {}))

    def row_counts(self) -> dict[str, int]:
        """How many rows each table holds."""
        return dict(self.rows("row_counts", {}))

    def table_rows(self, table: str) -> Generator[Row, None, None]:
        """All rows in the order of their key, each read when it is asked for; columns as in `TABLES`."""
        return self.each(f"dump_{table}", {})

    def load_row(self, table: str, row: Mapping[str, object]) -> None:
        """Add a row as it was. Text with surrogate escapes stands for the bytes that were found in place of UTF-8."""
        params = dict(row)
        for column in _TEXT_COLUMNS.intersection(row):
            params[column], params[f"{column}_is_broken"] = _parameter(row[column])
        self.changed(f"load_{table}", params)

    def last_ids(self) -> dict[str, int]:
        """The highest id that each of the `NUMBERED_TABLES` has ever given out."""
        return dict(self.rows("last_ids", {}))

    def raise_last_id(self, table: str, last_id: int, *, prefix: str = "_honker_") -> None:
        """Have a table give out higher ids only, from now on."""
        params = {"prefix": prefix, "table": table, "last_id": last_id}
        self.changed("forget_lower_last_id", params)
        self.changed("add_last_id", params)

    def further_tables(self, names: Iterable[str]) -> dict[str, FurtherTable]:
        """Those of the named tables that are there, by name."""
        found = self.rows("further_tables", {"names": json.dumps(list(names))})
        return {name: FurtherTable(name, tuple(json.loads(columns)), *rest) for name, columns, *rest in found}

    def further_count(self, table: FurtherTable) -> int:
        ((count,),) = self.each_of(table.count_sql)
        return int(count)

    def further_rows(self, table: FurtherTable) -> Generator[Row, None, None]:
        """As `table_rows`."""
        return self.each_of(table.dump_sql)

    def load_further_row(self, table: FurtherTable, row: Mapping[str, object]) -> None:
        """As `load_row`."""
        self.execute(table.load_sql, [part for column in table.columns for part in _parameter(row[column])])

    def migration_note(self) -> str | None:
        """What a migration into this database that has not ended has noted."""
        found = self.value("migration_note", {})
        return None if found is None else str(found)

    def save_migration_note(self, note: str) -> None:
        self.changed("save_migration_note", {"note": note})

    def forget_migration_note(self) -> None:
        self.changed("forget_migration_note", {})

    def defer_references(self) -> None:
        """Until the commit, rows may refer to others that are yet to come."""
        self.rows("defer_references", {})


def _parameter(value: object) -> tuple[object, bool]:
    """What to pass for a value, and whether that is text which is not UTF-8, as bytes."""
    if isinstance(value, str) and storable(value) != value:
        return value.encode("utf-8", "surrogateescape"), True
    return value, False
