"""The lake: plain Parquet in folders, with a log beside it that makes each batch count once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from brant.pipeline.archives import BY_TARGET, EVENTS
from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.batches import Batch, BatchLog, LakeFile
from brant.pipeline.lake.files import LakeFiles
from brant.pipeline.lake.table import LakeTable

if TYPE_CHECKING:
    from brant.pipeline.project import Project

__all__ = ["Batch", "BatchLog", "Lake", "LakeFile", "LakeFiles", "LakeTable"]

VERSION = 1
_MARKER = "_brant/lake.json"
_PARQUET, _DELTA = "parquet", "delta"

BRONZE_EVENTS = EVENTS.target


class Lake:
    """A folder of tables: bronze/..., silver/..., quarantine/..., gold/..."""

    def __init__(self, root: str, *, create: bool = False, format: str = _PARQUET) -> None:  # noqa: A002
        """A lake keeps the format that it was made with: `format` is that of a new one."""
        self.files = LakeFiles(root)
        self.root = self.files.root
        self.format = self._marked(create, format)

    @classmethod
    def of(cls, project: Project, *, create: bool = False) -> Lake:
        """The project's lake, in the format that the project says."""
        lake = cls(project.lake, create=create, format=project.format)
        if lake.format != project.format:
            raise PipelineError(
                f"the lake {lake.root} has the format {lake.format}, and the project says {project.format}: set "
                f'format = "{lake.format}", or name another lake'
            )
        return lake

    def table(self, name: str) -> LakeTable:
        partition_by = BY_TARGET[name].partition_by if name in BY_TARGET else ("date",)
        if self.format == _DELTA:
            from brant.pipeline.lake.delta import DeltaLakeTable

            return DeltaLakeTable(self.files, name, partition_by)
        return LakeTable(self.files, name, partition_by)

    def bronze(self) -> LakeTable:
        """That of the events."""
        return self.table(BRONZE_EVENTS)

    def tables(self) -> list[LakeTable]:
        """Those that have been written, by name."""
        names = [
            f"{layer}/{name}"
            for layer in ("bronze", "silver", "quarantine", "gold")
            for name in self.files.names(layer)
            if not name.startswith(("_", "."))
        ]
        return [self.table(name) for name in names]

    def _marked(self, create: bool, format: str) -> str:  # noqa: A002
        """Checks the version of the lake, and makes a new one if asked to; tells its format."""
        content = self.files.read(_MARKER)
        if content is None:
            if not create:
                raise PipelineError(f"there is no lake at {self.root}: run `brant pipeline archive` first")
            with self.files.told_when_full():
                self.files.write(_MARKER, json.dumps({"version": VERSION, "format": format}).encode())
            return format
        try:
            marker = json.loads(content)
            version, found = int(marker["version"]), str(marker.get("format", _PARQUET))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PipelineError(f"{self.root}/{_MARKER} can't be read: {error}") from None
        if version > VERSION:
            raise PipelineError(f"the lake {self.root} was written by a newer Brant (format {version}): upgrade Brant")
        if found not in (_PARQUET, _DELTA):
            raise PipelineError(f"the lake {self.root} has the format {found!r}, which this Brant does not know")
        return found
