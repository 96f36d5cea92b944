"""Deleting from the databases what the lake has for good."""

from __future__ import annotations

import json
from collections.abc import Iterable

import brant
from brant.config import without_password
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.errors import PipelineError
from brant.pipeline.jobs.topics import Held
from brant.pipeline.lake import Batch, Lake
from brant.pipeline.project import Project
from brant.pipeline.shelf import open_shelf
from brant.pipeline.tables import TABLES
from brant.pipeline.tenants import Tenants

QUERY = "archive"
# Holds back retention until the events are in the lake.
CONSUMER = "brant-archive"
_MARK = "_brant/pruned.json"


def prune(project: Project, lake: Lake, databases: Iterable[tuple[str, str]] | None = None) -> dict[str, int]:
    """Delete what the lake has for good and every named consumer has passed; tells how much, by tenant.

    `databases` are (tenant, path); all of the project's by default. Only batches that Spark has finished count: an
    unfinished one will be read again. A lake that lacks something is a reason to delete nothing.
    """
    checkpoint = Checkpoint(lake.files, QUERY)
    finished = checkpoint.last_finished()
    if finished < 0:
        return {}
    held = Held.of(_checked(lake, checkpoint, finished))
    checkpoint.make_durable(finished)
    archived = checkpoint.offsets(finished)
    chosen = Tenants(project.database).find().items() if databases is None else databases
    found = [(tenant, path, archived[tenant]) for tenant, path in chosen if tenant in archived]
    for _, path, up_to in found:
        _require_same_file(path, up_to)
    pruned = {tenant: _prune(path, up_to, held) for tenant, path, up_to in found}
    lake.files.write(_MARK, json.dumps({"batch": finished}).encode())
    return pruned


def _checked(lake: Lake, checkpoint: Checkpoint, finished: int) -> Batch:
    """The last finished batch of the log, once all files are seen that came since the last time."""
    log = lake.bronze().log
    if log.last_complete() < finished:
        raise PipelineError(
            f"the archive has finished batch {finished}, and the lake {lake.root} ends at batch {log.last_complete()}: "
            "it was put back from a copy. Nothing was deleted"
        )
    batches = log.between(-1, finished)
    if not batches or batches[-1].query != checkpoint.query_id():
        raise PipelineError(
            f"the lake {lake.root} was written by another query than the archive's checkpoint tells of. Nothing was "
            "deleted"
        )
    seen = _last_pruned(lake)
    there = {lake.files.path_of(info): info.size for info in lake.files.files(lake.bronze().name)}
    for batch in batches:
        for file in batch.files if batch.number > seen else ():
            if there.get(file.path) != file.bytes:
                raise PipelineError(f"{lake.root}/{file.path} is missing or damaged. Nothing was deleted")
    return batches[-1]


def _last_pruned(lake: Lake) -> int:
    content = lake.files.read(_MARK)
    return -1 if content is None else int(json.loads(content)["batch"])


def _require_same_file(path: str, up_to: int) -> None:
    with open_shelf(path, TABLES["stream"]) as shelf:
        last = shelf.bounds()[1]
    if last < up_to:
        raise PipelineError(
            f"{without_password(path)} ends at event {last}, and was archived up to {up_to}: it is an older copy, "
            "whose new events are not in the lake. Nothing was deleted"
        )


def _prune(path: str, up_to: int, held: Held) -> int:
    pruned = 0
    with brant.open(path, create=False) as db:
        for topic in db.list_streams() if held.topics is None else sorted(held.topics):
            stream = db.stream(topic)
            stream.save_offset(CONSUMER, up_to)
            pruned += stream.prune(up_to=up_to)
    return pruned
