"""What the archive takes: which table of the databases each of its queries brings into which table of bronze."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brant.pipeline.errors import PipelineError
from brant.pipeline.shelf import NoTables, open_shelf
from brant.pipeline.tables import TABLES, Table
from brant.pipeline.tenants import Tenants

if TYPE_CHECKING:
    from brant.pipeline.lake.batches import Batch

ARCHIVE = "archive"


@dataclass(frozen=True)
class Archived:
    """One query of the archive."""

    query: str
    source: Table
    target: str
    """The table of the lake."""
    folder: str
    """The column whose values are folders, above those of the dates."""
    moment: str
    """The column that says to which date a row belongs."""
    columns: str
    """Those of the target, as any reader sees them."""

    @property
    def partition_by(self) -> tuple[str, str]:
        return self.folder, "date"


_ALL = (
    Archived(
        ARCHIVE,
        TABLES["stream"],
        "bronze/events",
        "topic",
        "created_at",
        "offset bigint, key string, payload string, created_at timestamp, tenant string, topic string, date date",
    ),
    Archived(
        "archive-deliveries",
        TABLES["deliveries"],
        "bronze/deliveries",
        "endpoint",
        "received_at",
        "id bigint, provider string, event_id bigint, received_at timestamp, provider_event_id string, "
        "provider_delivery_id string, event_type string, method string, headers string, body binary, query string, "
        "signature_valid bigint, signature_error string, dedupe_key string, duplicate bigint, tenant string, "
        "endpoint string, date date",
    ),
    Archived(
        "archive-attempts",
        TABLES["attempts"],
        "bronze/attempts",
        "endpoint",
        "attempted_at",
        "id bigint, event_id bigint, provider string, event_type string, received_at timestamp, "
        "attempted_at timestamp, outcome string, error string, duration_ms bigint, tenant string, endpoint string, "
        "date date",
    ),
)
ARCHIVES = {each.query: each for each in _ALL}
BY_TARGET = {each.target: each for each in _ALL}
EVENTS, DELIVERIES, ATTEMPTS = _ALL
OF_THE_INBOX = (DELIVERIES, ATTEMPTS)

# Of the lake too, and of the inbox; but counts, which are brought up to date instead of added to.
BRONZE_REJECTS = "bronze/rejects"


def is_in_use(database: str, table: Table) -> bool | None:
    """Whether some database has the table; None when they can't be looked at from here."""
    is_known = True
    for path in Tenants(database).find().values():
        try:
            with open_shelf(path, table) as shelf:
                shelf.require_tables()
            return True
        except NoTables:
            continue
        except PipelineError:
            is_known = False
    return False if is_known else None


def lost_in(batches: Iterable[Batch]) -> int:
    """Rows that were deleted before they were archived, by what the batches note of how many they expected."""
    return max(0, sum(int(str(batch.facts.get("expected", 0))) - batch.rows for batch in batches))
