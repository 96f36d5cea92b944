"""What a task hands to the driver: its rows as compressed Arrow, inside the message or in a file beside it."""

from __future__ import annotations

import io
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from brant.pipeline.errors import PipelineError
from brant.pipeline.sink_layout import Layout

_SUFFIX = ".brant-part"
# No batch takes so long that a file of this age could still be asked for.
_OLDEST_PART_S = 86_400


@dataclass
class Part(WriterCommitMessage):
    """The rows of one task; `names` are the topics or queues among them."""

    rows: int = 0
    names: tuple[str, ...] = ()
    data: bytes | None = field(default=None, repr=False)
    file: str | None = None
    query: str | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.data is not None:
            yield from pa.ipc.open_stream(self.data)
        elif self.file is not None:
            try:
                source = pa.OSFile(self.file)
            except FileNotFoundError:
                raise PipelineError(
                    f"{self.file}, which a task has written, is not there for the driver: set stagingDir to a folder "
                    "that all machines share; nothing was written"
                ) from None
            with source, pa.ipc.open_stream(source) as reader:
                yield from reader


class _Spill(io.RawIOBase):
    """Bytes in memory that move to a file once there are too many."""

    def __init__(self, folder: str, most: int) -> None:
        self._folder = folder
        self._most = most
        self._memory = io.BytesIO()
        self._disk: BinaryIO | None = None
        self.file: str | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written = (self._disk or self._memory).write(data)
        if self._disk is None and self._memory.tell() > self._most:
            self._move_to_disk()
        return written

    def finish(self) -> bytes | None:
        """The bytes; None when they are in the file, which no power cut takes away any more."""
        if self._disk is None:
            return self._memory.getvalue()
        self._disk.flush()
        os.fsync(self._disk.fileno())
        self._disk.close()
        fsync_folder(self._folder)
        return None

    def discard(self) -> None:
        if self._disk is not None:
            self._disk.close()
        if self.file is not None:
            remove_file(self.file)

    def _move_to_disk(self) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self.file = os.path.join(self._folder, uuid.uuid4().hex + _SUFFIX)
        self._disk = os.fdopen(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._disk.write(self._memory.getbuffer())
        self._memory = io.BytesIO()


def pack(batches: Iterable[pa.RecordBatch], layout: Layout, folder: str, most: int, query: str | None) -> Part:
    """The rows of a task, checked and compressed; past `most` bytes they go into a file in that folder."""
    spill = _Spill(folder, most)
    names = set() if layout.name is None else {layout.name}
    rows = 0
    try:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(pa.PythonFile(spill, "w"), layout.packed_schema(), options=options) as out:
            for batch in batches:
                packed = layout.packed(batch, rows + 1)
                if layout.name is None:
                    names.update(packed.column("name").unique().to_pylist())
                rows += packed.num_rows
                out.write_batch(packed)
        data = spill.finish()
    except BaseException:
        spill.discard()
        raise
    return Part(rows, tuple(sorted(names)), data, spill.file, query)


def discard(parts: Iterable[Part]) -> None:
    for part in parts:
        if part.file is not None:
            remove_file(part.file)


def sweep(folder: str, now: float | None = None) -> None:
    """Remove the files of tasks that were killed, or that ran twice and lost."""
    oldest = (time.time() if now is None else now) - _OLDEST_PART_S
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) and entry.stat().st_mtime < oldest:
                remove_file(entry.path)


def remove_file(path: str) -> None:
    # Gone already, or to be swept later: nothing that a batch could fail for.
    with suppress(OSError):
        os.unlink(path)


def fsync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
