"""A batch and the mark that it was written, in one transaction: so a batch that comes again is known."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import brant
from brant.failpoint import failpoint
from brant.pipeline.errors import PipelineError
from brant.pipeline.mark_table import MarkTable
from brant.pipeline.sink_parts import fsync_folder

_VERSION = "version"
_UNSEEN = "unseen"


@dataclass(frozen=True)
class Mark:
    """Which batch of which writer; `plan` tells whether a batch that comes again is the same one."""

    app: str
    batch: int
    plan: str
    fail_on_data_loss: bool = True

    @property
    def query(self) -> str:
        return self.plan.partition(":")[0]

    @classmethod
    def of_query(cls, app: str | None, query: str, batch: int, checkpoint: str, *, fail_on_data_loss: bool) -> Mark:
        plan = f"{query}:{_plan_on_disk(checkpoint, batch)}"
        return cls(app or query, batch, plan, fail_on_data_loss)

    @classmethod
    def of_version(cls, app: str, version: int) -> Mark:
        return cls(app, version, _VERSION)


def write_once(db: brant.Database, mark: Mark | None, write: Callable[[brant.Transaction], int], now: float) -> bool:
    """Write the rows and the mark together; False when the mark says that they are there already."""
    marks = MarkTable(db)
    if mark is not None:
        marks.make()
    with db.transaction() as tx:
        if mark is not None and _is_repeated(mark, _as_mark(mark.app, marks.hold(tx, mark.app)), db.path):
            return False
        rows = write(tx)
        if mark is not None:
            marks.save(tx, [mark.app, mark.batch, mark.plan, rows, now])
        failpoint("sink.before_commit")
    failpoint("sink.after_commit")
    return True


def last_version(db: brant.Database, app: str) -> int:
    """The last `txnVersion` that was written as `app`; -1 when there is none."""
    marks = MarkTable(db)
    marks.make()
    found = marks.look(app)
    return -1 if found is None else found[0]


def _as_mark(app: str, found: tuple[int, str] | None) -> Mark | None:
    return None if found is None else Mark(app, *found)


def _is_repeated(mark: Mark, found: Mark | None, target: str) -> bool:
    if mark.plan == _VERSION:
        return _is_repeated_version(mark, found, target)
    if found is None:
        if mark.batch > 0 and mark.fail_on_data_loss:
            raise _lost_target(mark, f"{target} knows nothing of this query")
        return False
    if found.query != mark.query:
        raise PipelineError(
            f"{target} has batches up to {found.batch} of {mark.app!r} by another query: the checkpoint was lost or "
            "replaced, and going on would write its rows again. Put the checkpoint back, or choose another txnAppId; "
            "nothing was written"
        )
    if found.batch > mark.batch or (found.batch == mark.batch and found.plan != mark.plan):
        raise PipelineError(
            f"{target} has batch {found.batch} of {mark.app!r}, and the checkpoint now plans batch {mark.batch} anew: "
            "an older checkpoint was put back, or a part of it was lost. Put the latest checkpoint back, or start with "
            "a new one; nothing was written"
        )
    if found.batch < mark.batch - 1 and mark.fail_on_data_loss:
        raise _lost_target(mark, f"{target} ends at batch {found.batch}")
    return found.batch == mark.batch


def _is_repeated_version(mark: Mark, found: Mark | None, target: str) -> bool:
    if found is None:
        return False
    if found.plan != _VERSION:
        raise PipelineError(f"{mark.app!r} is a streaming query that writes to {target}; choose another txnAppId")
    if mark.batch < found.batch:
        raise PipelineError(
            f"txnVersion {mark.batch} of {mark.app!r} is older than {found.batch}, which {target} has already; "
            "nothing was written"
        )
    return mark.batch == found.batch


def _lost_target(mark: Mark, why: str) -> PipelineError:
    return PipelineError(
        f"the checkpoint is at batch {mark.batch}, but {why}: the database was replaced or put back, and the rows "
        "between are missing. Start with a new checkpointLocation to write them again, or set failOnDataLoss to false "
        "to go on without them; nothing was written"
    )


def _plan_on_disk(checkpoint: str, batch: int) -> str:
    """The hash of what Spark plans for the batch, once a power cut can't take that plan away any more.

    Spark does not fsync its log. A plan that came back different after the rows were written would go unnoticed.
    """
    folder = local_folder(checkpoint)
    if folder is None:  # an object store or HDFS: durable by itself, and not for us to read
        return _UNSEEN
    try:
        plan = _read_durably(os.path.join(folder, "offsets", str(batch)))
        _read_durably(os.path.join(folder, "metadata"))
        for durable in (os.path.join(folder, "offsets"), folder, os.path.dirname(folder)):
            fsync_folder(durable)
    except OSError as error:
        raise PipelineError(
            f"the plan of batch {batch} cannot be read in the checkpoint {folder} ({error.strerror}): was it removed "
            "while the query ran? nothing was written"
        ) from error
    return hashlib.sha256(plan).hexdigest()


def _read_durably(path: str) -> bytes:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        return file.read()


def local_folder(location: str) -> str | None:
    """The folder that a path or a file: address names; None for an address elsewhere."""
    address = urlsplit(location)
    if address.scheme == "file":
        return os.path.abspath(unquote(address.path))
    return None if address.scheme else os.path.abspath(location)
