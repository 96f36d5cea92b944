"""How far each query of a project is, and what went wrong last; read from the lake and the databases, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brant.config import without_password
from brant.pipeline.archives import ARCHIVE, ARCHIVES, OF_THE_INBOX, Archived, is_in_use, lost_in
from brant.pipeline.errors import PipelineError, missing_extra

if TYPE_CHECKING:
    from brant.pipeline.lake import Lake, LakeTable
    from brant.pipeline.notes import Note
    from brant.pipeline.project import Project

_REFINE = "refine-"
_METRICS = "metrics"
_COUNTED = ("late", "malformed", "duplicates")


@dataclass(frozen=True)
class QueryStatus:
    """One query. Times are Unix seconds; what nobody knows is None."""

    query: str
    is_running: bool
    offsets: dict[str, int]
    """Up to where it has read: of each tenant, or of the lake's batches."""
    lag: int | None
    """Events, or rows of another table, that it has not taken yet."""
    batch: int | None
    """The last batch that is finished."""
    batch_at: float | None
    rows: int | None
    """All that it has written; None where its tables are computed anew instead of added to."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows that were set apart, by reason, and duplicates that were dropped; rows that were lost to retention."""
    error: str | None = None
    error_at: float | None = None


@dataclass(frozen=True)
class PipelineStatus:
    database: str
    lake: str
    queries: tuple[QueryStatus, ...]


def status(project: Project) -> PipelineStatus:
    """How far each query of the project is."""
    try:
        from brant.pipeline.lake import Lake
    except ImportError as missing:
        raise missing_extra(missing.name or "pyarrow") from missing
    lake = Lake.of(project)
    return PipelineStatus(
        without_password(project.database),
        lake.root,
        tuple(_status(project, lake, name) for name in _queries(project, lake)),
    )


def _queries(project: Project, lake: Lake) -> list[str]:
    """Those that the project asks for, and those that have been there before."""
    from brant.pipeline.notes import GOLD, noted_queries

    declared = [
        ARCHIVE,
        *(kind.query for kind in OF_THE_INBOX if is_in_use(project.database, kind.source)),
        *(f"{_REFINE}{table.name}" for table in project.silver),
        _METRICS,
        *(f"{GOLD}{table.name}" for table in project.gold),
    ]
    return list(dict.fromkeys([*declared, *lake.files.names("_checkpoints"), *noted_queries(lake.files)]))


def _status(project: Project, lake: Lake, name: str) -> QueryStatus:
    from brant.pipeline.checkpoint import Checkpoint
    from brant.pipeline.notes import GOLD, Note, read_note

    note = read_note(lake.files, name) or Note(name)
    if name.startswith(GOLD):
        return QueryStatus(
            name, note.is_running, {}, None, note.batch, note.batch_at, None, {}, note.error, note.error_at
        )
    checkpoint = Checkpoint(lake.files, name)
    finished = checkpoint.last_finished()
    offsets = checkpoint.offsets(finished) if finished >= 0 else {}
    table = _table(lake, name)
    return QueryStatus(
        query=name,
        is_running=note.is_running,
        offsets=offsets if name in ARCHIVES else {key: offsets[key] for key in offsets if key == "batch"},
        lag=_lag(project, lake, name, offsets),
        batch=finished if finished >= 0 else None,
        batch_at=_last_written(table, note),
        rows=None if table is None else sum(batch.rows for batch in table.log.between(-1, finished)),
        counts=_counts(lake, name, finished),
        error=note.error,
        error_at=note.error_at,
    )


def _table(lake: Lake, name: str) -> LakeTable | None:
    """The table that the query adds batches to."""
    if name in ARCHIVES:
        return lake.table(ARCHIVES[name].target)
    return lake.table(f"silver/{name.removeprefix(_REFINE)}") if name.startswith(_REFINE) else None


def _last_written(table: LakeTable | None, note: Note) -> float | None:
    last = table.log.last() if table is not None else None
    return last.written_at if last is not None and last.written_at else note.batch_at


def _counts(lake: Lake, name: str, finished: int) -> dict[str, int]:
    if name in ARCHIVES and ARCHIVES[name].source.optional:
        return {"lost": lost_in(lake.table(ARCHIVES[name].target).log.between(-1, finished))}
    if not name.startswith(_REFINE):
        return {}
    table = name.removeprefix(_REFINE)
    counts: Counter[str] = Counter()
    for batch in lake.table(f"silver/{table}").log.between(-1, finished):
        counts.update({name: int(str(batch.facts.get(name, 0))) for name in _COUNTED})
    counts["quarantined"] = sum(batch.rows for batch in lake.table(f"quarantine/{table}").log.between(-1, finished))
    return dict(counts)


def _lag(project: Project, lake: Lake, name: str, offsets: dict[str, int]) -> int | None:
    if name not in ARCHIVES:
        log = lake.bronze().log
        batches = log.between(offsets.get("batch", -1), log.last_complete())
        return sum(file.rows for batch in batches for file in batch.files if _reads(project, name, file.path))
    try:
        return sum(_waiting(project, ARCHIVES[name], offsets))
    except PipelineError:
        return None  # a database that is away does not hide what is known of the lake


def _reads(project: Project, name: str, path: str) -> bool:
    """Whether the query takes the rows of that file of bronze."""
    from brant.pipeline.lake.selection import folder_value

    topics = {f"{_REFINE}{table.name}": table.topic for table in project.silver}
    return name not in topics or folder_value(path, "topic") == topics[name]


def _waiting(project: Project, kind: Archived, offsets: dict[str, int]) -> Iterator[int]:
    """Rows in each database that are not archived yet."""
    from brant.pipeline.shelf import NoTables, open_shelf
    from brant.pipeline.tenants import Tenants

    names = project.archive.topics or None if kind.query == ARCHIVE else None
    for tenant, path in Tenants(project.database).found().items():
        try:
            with open_shelf(path, kind.source) as shelf:
                yield shelf.count(offsets.get(tenant, 0), shelf.end(names), names)
        except NoTables:
            yield 0
