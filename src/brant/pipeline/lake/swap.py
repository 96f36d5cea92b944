"""New folders in the place of old ones, with a journal: whoever comes after a kill finishes what was begun."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from brant.failpoint import failpoint
from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.batches import Batch, BatchLog, stored_batch
from brant.pipeline.lake.files import LakeFiles


@dataclass(frozen=True)
class Swap:
    """A folder that waits in the staging area, and the one whose place it takes."""

    place: str
    staged: str
    proof: str
    """A file that is found under this path once the new folder is in place, and not before."""


def swap_folders(files: LakeFiles, log: BatchLog, swaps: Sequence[Swap], up_to: int, batches: Sequence[Batch]) -> None:
    """Put the folders in place and have the log say what is in them now. The caller is alone at the table."""
    for swap in swaps:
        _sync_all(files, swap.staged)
    journal = {
        "swaps": [asdict(swap) for swap in swaps],
        "up_to": up_to,
        "batches": [asdict(batch) for batch in batches],
    }
    files.write(_journal(log), json.dumps(journal).encode())
    failpoint("compact.before_swap")
    finish_swaps(files, log)


def finish_swaps(files: LakeFiles, log: BatchLog) -> bool:
    """Do what is left of what the journal says; False when there is none. Each step can be done again."""
    content = files.read(_journal(log))
    if content is None:
        return False
    try:
        journal = json.loads(content)
        swaps = [Swap(**each) for each in journal["swaps"]]
        batches = [stored_batch(each) for each in journal["batches"]]
        up_to = int(journal["up_to"])
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"{files.root}/{_journal(log)} can't be read: {error}") from None
    for swap in swaps:
        _put(files, swap)
        failpoint("compact.between_swaps")
    failpoint("compact.after_swaps")
    log.fold(up_to, batches)
    failpoint("compact.after_log")
    log.drop_folded()
    files.remove(_journal(log))
    files.sync(log.folder)
    return True


def _put(files: LakeFiles, swap: Swap) -> None:
    if files.exists(swap.proof):
        return
    if files.exists(swap.place):
        files.exchange(swap.place, swap.staged)
    else:  # killed between two plain renames, where the system can't exchange
        files.move(swap.staged, swap.place)
    files.sync(os.path.dirname(swap.place))
    files.sync(os.path.dirname(swap.staged))


def _sync_all(files: LakeFiles, folder: str) -> None:
    for place, _, names in os.walk(files.local(folder)):
        for path in (*(os.path.join(place, name) for name in names), place):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _journal(log: BatchLog) -> str:
    return f"{log.folder}/compacting.json"
