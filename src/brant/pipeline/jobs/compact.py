"""Small files into large ones, for days that are over; safe beside readers and beside the queries that write."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from brant.clock import Clock
from brant.pipeline.checkpoint import lake_readers
from brant.pipeline.errors import PipelineError
from brant.pipeline.lake import Lake, LakeTable
from brant.pipeline.lake.batches import Batch, LakeFile, batch_name, folded
from brant.pipeline.lake.merge import Unmergeable, merge
from brant.pipeline.lake.swap import Swap, swap_folders
from brant.pipeline.project import Project

TARGET_BYTES = 128 * 1024 * 1024
_FOLDERS_AT_ONCE = 16
_DATE = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/")
_BATCH = re.compile(r"/batch=(\d+)(?:-(\d+))?/")


@dataclass(frozen=True)
class Compacted:
    """What was done to one table."""

    table: str
    folders: int = 0
    files_before: int = 0
    files_after: int = 0
    held_by: str | None = None
    """The query that is furthest behind, where batches had to be left for it."""
    skipped: tuple[str, ...] = ()
    """Why some folders were left as they are."""


@dataclass(frozen=True)
class _Folder:
    """Files of one partition that are to become one, or a few."""

    path: str
    files: tuple[LakeFile, ...]

    @property
    def batches(self) -> str:
        spans = [_span(file.path) for file in self.files]
        return f"batch={batch_name(min(first for first, _ in spans))}-{batch_name(self.last)}"

    @property
    def last(self) -> int:
        return max(last for _, last in (_span(file.path) for file in self.files))


def compact(
    project: Project,
    tables: Sequence[str] = (),
    *,
    target_bytes: int = TARGET_BYTES,
    clock: Clock | None = None,
) -> list[Compacted]:
    """Join the small files of each day before today (UTC) in bronze, silver and quarantine; gold has none.

    Left alone are the newest batch of each table, which may be tried again, and what a query that follows the lake has
    not read yet. Needs no Spark.
    """
    lake = Lake.of(project)
    if not lake.files.is_local:
        raise PipelineError(f"compact swaps folders, which needs a lake on a disk of this machine, not {lake.root}")
    if target_bytes < 1:
        raise PipelineError(f"the size to reach must be at least 1 byte, not {target_bytes}")
    today = datetime.fromtimestamp((clock or Clock()).now(), UTC).date().isoformat()
    return [_Compaction(lake, table, target_bytes, today).run() for table in _chosen(lake, tables)]


def _chosen(lake: Lake, names: Sequence[str]) -> list[LakeTable]:
    known = {table.name: table for table in lake.tables() if table.exists}
    for name in names:
        if name not in known:
            raise PipelineError(f"there is no table {name!r} to compact; there are {', '.join(known) or 'none'}")
    return [table for name, table in known.items() if not names or name in names]


class _Compaction:
    def __init__(self, lake: Lake, table: LakeTable, target_bytes: int, today: str) -> None:
        self._files = lake.files
        self._table = table
        self._target_bytes = target_bytes
        self._today = today
        self._staging = f"{table.log.staging}/compacted"
        self._skipped: list[str] = []

    def run(self) -> Compacted:
        log = self._table.log
        with self._files.locked(f"{log.folder}/compact.lock", f"the table {self._table.name}"):
            with self._table.changing():  # finishes what a killed run has begun
                self._files.remove_folder(self._staging)
                self._table.announce_swaps()
            limit, held_by = self._limit()
            result = Compacted(self._table.name, held_by=held_by)
            folders = self._folders(log.between(-1, limit))
            for start in range(0, len(folders), _FOLDERS_AT_ONCE):
                result = self._round(folders[start : start + _FOLDERS_AT_ONCE], limit, result)
        return replace(result, skipped=tuple(self._skipped))

    def _limit(self) -> tuple[int, str | None]:
        """The last batch that may be touched, and who holds back later ones."""
        newest = self._table.log.numbers()[-1]
        # Which table a query follows is not known: the number of another table's batch only makes it more careful.
        readers = lake_readers(self._files)
        behind = min(readers, key=lambda query: readers[query], default=None)
        if behind is not None and readers[behind] < newest - 1:
            return readers[behind], behind
        return newest - 1, None

    def _folders(self, batches: Sequence[Batch]) -> list[_Folder]:
        by_folder: dict[str, list[LakeFile]] = {}
        for batch in batches:
            for file in batch.files:
                date = _DATE.search(file.path)
                # A file that is large enough is not written again for a few rows more.
                if date and date[1] < self._today and file.bytes < self._target_bytes * 3 // 4:
                    by_folder.setdefault(file.path.partition("/batch=")[0], []).append(file)
        return [_Folder(path, tuple(files)) for path, files in sorted(by_folder.items()) if len(files) > 1]

    def _round(self, folders: Sequence[_Folder], limit: int, so_far: Compacted) -> Compacted:
        merged = {folder: files for folder in folders if (files := self._merged(folder))}
        if not merged:
            return so_far
        with self._files.told_when_full(), self._table.changing():
            swaps = [self._swap(folder, files) for folder, files in merged.items()]
            # A reader that came later may be behind what earlier runs have folded: that stays folded.
            up_to = max(limit, self._table.log.folded_up_to())
            swap_folders(self._files, self._table.log, swaps, up_to, self._new_log(merged, up_to))
            self._table.announce_swaps()
        self._files.remove_folder(self._staging)
        return replace(
            so_far,
            folders=so_far.folders + len(merged),
            files_before=so_far.files_before + sum(len(folder.files) for folder in merged),
            files_after=so_far.files_after + sum(len(files) for files in merged.values()),
        )

    def _merged(self, folder: _Folder) -> list[LakeFile]:
        """The new files, in the staging area; none where the folder is to stay as it is."""
        place = f"{self._staging}/{folder.path}/{folder.batches}"
        try:
            with self._files.told_when_full():
                return merge(self._files, folder.files, place, self._target_bytes)
        except Unmergeable as reason:
            self._skipped.append(f"{folder.path}: {reason}")
            return []

    def _swap(self, folder: _Folder, merged: Sequence[LakeFile]) -> Swap:
        """Completes the staged folder with all that stays: later batches, and files that are large already."""
        staged = f"{self._staging}/{folder.path}"
        gone = {file.path for file in folder.files}
        for info in self._files.files(folder.path):
            path = self._files.path_of(info)
            if path not in gone:
                self._files.link(path, f"{self._staging}/{path}")
        return Swap(folder.path, staged, self._placed(merged[0]).path)

    def _new_log(self, merged: dict[_Folder, list[LakeFile]], up_to: int) -> list[Batch]:
        batches = self._table.log.between(-1, up_to)
        gone = {file.path for folder in merged for file in folder.files}
        files_of = {batch.number: [file for file in batch.files if file.path not in gone] for batch in batches}
        for folder, files in merged.items():
            # Who has read all of them has read this one; who starts later reads it once.
            files_of[folder.last] += [self._placed(file) for file in files]
        return folded(batches, files_of)

    def _placed(self, file: LakeFile) -> LakeFile:
        return replace(file, path=os.path.relpath(file.path, self._staging))


def _span(path: str) -> tuple[int, int]:
    found = _BATCH.search(path)
    if found is None:
        raise PipelineError(f"{path} is in no batch's folder: the lake's log is damaged")
    return int(found[1]), int(found[2] or found[1])
