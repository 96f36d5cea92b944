"""A table of the lake: Parquet files in folders, each batch written once however often it is tried."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyarrow import fs
from pyarrow import parquet as pq

from brant.failpoint import failpoint
from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.batches import Batch, BatchLog, LakeFile, batch_name
from brant.pipeline.lake.files import LakeFiles
from brant.pipeline.lake.swap import finish_swaps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LakeTable:
    """`bronze/events` and the like.

    A batch is written in four steps: Spark writes it into a staging folder; its files are synced to the disk; the log
    names them; they are moved to their places, and the log says complete. A batch that is tried again takes back what
    the last try had moved, by the log. So each row is there once for every reader of Parquet, whatever was killed when.
    """

    def __init__(self, files: LakeFiles, name: str, partition_by: Sequence[str]) -> None:
        self.files = files
        self.name = name
        self.partition_by = tuple(partition_by)
        self.log = BatchLog(files, name)

    @property
    def url(self) -> str:
        """For `spark.read.parquet(...)`."""
        return self.files.url(self.name)

    @property
    def exists(self) -> bool:
        return bool(self.log.numbers())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Alone: two queries that write one table would take back each other's batches."""
        with self.files.locked(self.log.lock_path, f"the table {self.name}"):
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While files come to their places; what a killed compaction has left half done is finished first."""
        with self.files.locked(self.log.change_path, f"the table {self.name}", wait=True):
            finish_swaps(self.files, self.log)
            yield

    def write_batch(self, frame: DataFrame, number: int, query: str, plan: str = "", **facts: object) -> Batch:
        """Write the rows of a query's batch; the same batch again replaces what the first try has left.

        With its `plan`, a batch that is there already is left alone.
        """
        with self.writing(), self.files.told_when_full():
            done = self._done_before(number, query, plan)
            if done is not None:
                return done
            frame.write.partitionBy(*self.partition_by).parquet(self.files.url(self.stage(number)))
            return self.land(number, query, plan, **facts)

    def stage(self, number: int) -> str:
        """An empty folder for the files of a batch."""
        staging = self._staging(number)
        self.files.remove_folder(staging)
        return staging

    def land(self, number: int, query: str, plan: str = "", **facts: object) -> Batch:
        """Bring the files that were staged for a batch to their places."""
        staging = self._staging(number)
        staged = [info for info in self.files.files(staging) if info.base_name.endswith(".parquet")]
        files = tuple(self._placed(info, staging, number) for info in staged)
        for info in staged:
            self.files.sync(self.files.path_of(info))
        batch = Batch(number, query, False, files, time.time(), dict(facts), plan)
        with self.changing():
            self._take_back(self._earlier_try(number, query, plan))
            self.log.write(batch)
            failpoint("lake.before_moves")
            self._put_in_place(staged, files)
            failpoint("lake.after_moves")
            self.announce(batch)
            self.log.complete(batch)
        self.files.remove_folder(staging)
        return replace(batch, complete=True)

    def announce(self, batch: Batch) -> None:
        """For formats with a log of their own: the files of the batch are in place."""

    def is_announced(self, batch: Batch) -> bool:  # noqa: ARG002, for formats with a log of their own
        return False

    def announce_swaps(self) -> None:
        """For formats with a log of their own: files have taken the place of others."""

    def read(self, spark: SparkSession) -> DataFrame:
        """All rows, for a batch read."""
        return spark.read.parquet(self.url)

    def replace_partitions(self, frame: DataFrame, folders: Collection[str] = ()) -> list[LakeFile]:
        """Put the rows in place of the partitions that they belong to, for tables that are computed anew by date.

        Each folder is swapped in one step. A partition that gets no rows stays as it is, unless it is one of
        `folders`: those that get none are removed.
        """
        with self.writing(), self.files.told_when_full():
            return self._replace_partitions(frame, folders)

    def _replace_partitions(self, frame: DataFrame, folders: Collection[str]) -> list[LakeFile]:
        staging = f"{self.log.staging}/anew"
        self.files.remove_folder(staging)
        frame.write.partitionBy(*self.partition_by).parquet(self.files.url(staging))
        staged = [info for info in self.files.files(staging) if info.base_name.endswith(".parquet")]
        for info in staged:
            self.files.sync(self.files.path_of(info))
        files = [self._counted(info, f"{self.name}/{self._inside(info, staging)}") for info in staged]
        written = {os.path.dirname(self._inside(info, staging)) for info in staged}
        for folder in sorted(written):
            self._swap(f"{staging}/{folder}", f"{self.name}/{folder}")
        for folder in sorted(set(folders) - written):
            self.files.remove_folder(f"{self.name}/{folder}")
        self.files.remove_folder(staging)
        return files

    def _swap(self, new: str, place: str) -> None:
        if self.files.exists(place):
            self.files.exchange(new, place)
        else:
            self.files.make_folder(os.path.dirname(place))
            self.files.move(new, place)
        self.files.sync(os.path.dirname(place))

    def _staging(self, number: int) -> str:
        return f"{self.log.staging}/{batch_name(number)}"

    def _done_before(self, number: int, query: str, plan: str) -> Batch | None:
        """The batch, when it needs no second try."""
        earlier = self._earlier_try(number, query, plan)
        if earlier is None:
            return None
        if self.is_announced(earlier):
            with self.changing():
                self.log.complete(earlier)
            return replace(earlier, complete=True)
        return earlier if earlier.complete and plan and earlier.plan == plan else None

    def _earlier_try(self, number: int, query: str, plan: str) -> Batch | None:
        """What an earlier try of this batch has left; refuses a batch that does not follow from the last one."""
        last = self.log.last()
        if last is None:
            if number > 0:
                raise PipelineError(
                    f"the checkpoint is at batch {number}, and {self.name} has none: the lake was lost or replaced. "
                    f"Put it back, or remove the checkpoint too and start anew"
                )
            return None
        if last.query != query:
            raise PipelineError(
                f"{self.name} was written by another query ({last.query}), and now comes {query}: its checkpoint was "
                f"lost or replaced. Put it back, or move {self.url} and its log away and start anew"
            )
        if number == last.number:
            if last.complete and plan and last.plan and last.plan != plan:
                raise self._put_back(last.number, f"plans batch {number} anew")
            return last
        if number != last.number + 1 or not last.complete:
            raise self._put_back(last.number, f"asks for {number}")
        return None

    def _put_back(self, has: int, what: str) -> PipelineError:
        return PipelineError(
            f"{self.name} has batches up to {has}, and the checkpoint {what}: one of the two was put back from a copy. "
            f"Bring both to the same state, or start both anew"
        )

    def _take_back(self, batch: Batch | None) -> None:
        if batch is None:
            return
        if batch.complete:
            self.log.write(replace(batch, complete=False))
        for file in batch.files:
            self.files.remove(file.path)

    def _placed(self, info: fs.FileInfo, staging: str, number: int) -> LakeFile:
        folder, _, name = self._inside(info, staging).rpartition("/")
        parts = [self.name, folder, f"batch={batch_name(number)}", name]
        return self._counted(info, "/".join(part for part in parts if part))

    def _inside(self, info: fs.FileInfo, staging: str) -> str:
        return self.files.path_of(info)[len(staging) + 1 :]

    def _counted(self, info: fs.FileInfo, path: str) -> LakeFile:
        with self.files.open(self.files.path_of(info)) as file:
            rows = pq.ParquetFile(file).metadata.num_rows
        return LakeFile(path, rows, info.size)

    def _put_in_place(self, staged: Sequence[fs.FileInfo], files: Sequence[LakeFile]) -> None:
        folders = {os.path.dirname(file.path) for file in files}
        for folder in folders:
            self.files.make_folder(folder)
        for info, file in zip(staged, files, strict=True):
            self.files.move(self.files.path_of(info), file.path)
            failpoint("lake.between_moves")
        for parent in {ancestor for folder in folders for ancestor in _up_to(folder, self.name)}:
            self.files.sync(parent)


def _up_to(folder: str, top: str) -> Iterator[str]:
    """The folder and those above it, up to the table's own: each may be new, and its entry must be on the disk."""
    while folder != top:
        yield folder
        folder = os.path.dirname(folder)
    yield top
