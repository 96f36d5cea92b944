"""What the runner notes of each query for `status`: `_brant/status/<query>.json` in the lake."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from brant.pipeline.lake.files import LakeFiles

_FOLDER = "_brant/status"
GOLD = "gold-"
"""Before the name of a gold table: it is no query, and noted as if it were one."""


@dataclass(frozen=True)
class Note:
    """The last that a query did, and the last that went wrong with it. Times are Unix seconds."""

    query: str
    batch: int | None = None
    batch_rows: int = 0
    batch_at: float | None = None
    rows_per_s: float = 0.0
    ended_at: float | None = None
    error: str | None = None
    error_at: float | None = None
    pid: int | None = None
    """Of the process that runs the query, while it does."""
    host: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process lives; one that was killed has left its number behind."""
        if self.pid is None:
            return False
        return self.host != socket.gethostname() or _is_alive(self.pid)


class Notes:
    """The note of one query. Nothing relies on it: that it can't be written is no reason to stop."""

    def __init__(self, files: LakeFiles, query: str) -> None:
        self._files = files
        self._path = f"{_FOLDER}/{query}.json"
        self._note = read_note(files, query) or Note(query)

    def begun(self) -> None:
        self._write(pid=os.getpid(), host=socket.gethostname())

    def progressed(self, batch: int, rows: int, rows_per_s: float) -> None:
        self._write(batch=batch, batch_rows=rows, batch_at=time.time(), rows_per_s=round(rows_per_s, 1))

    def failed(self, error: str) -> None:
        self._write(error=error, error_at=time.time())

    def ended(self) -> None:
        self._write(pid=None, host=None, ended_at=time.time())

    def _write(self, **changes: Any) -> None:
        self._note = replace(self._note, **changes)
        try:
            self._files.write(self._path, json.dumps(asdict(self._note)).encode())
        except OSError:
            pass


def read_note(files: LakeFiles, query: str) -> Note | None:
    """None when the query has never run, or its note is of another kind of Brant."""
    content = files.read(f"{_FOLDER}/{query}.json")
    if content is None:
        return None
    try:
        return Note(**json.loads(content))
    except (ValueError, TypeError):
        return None


def noted_queries(files: LakeFiles) -> list[str]:
    return [name.removesuffix(".json") for name in files.names(_FOLDER) if name.endswith(".json")]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
