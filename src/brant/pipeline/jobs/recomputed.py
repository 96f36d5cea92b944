"""Tables computed anew, date by date, as gold is. How far their sources were read is kept: a run does what changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_of
from brant.pipeline.lake import Lake, LakeFile, LakeTable
from brant.pipeline.lake.selection import dates_of, folder_value
from brant.pipeline.notes import GOLD, Notes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION = "date"


@dataclass(frozen=True)
class Computed:
    """What is known of a gold table: the run that last made each date, and how far each source was read."""

    run: int = 0
    dates: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    definition: str = ""

    def changed_since(self, run: int) -> set[str]:
        return {date for date, made in self.dates.items() if made > run}


class RecomputedTable:
    """`gold/<name>`, in folders by date, with its file `_brant/gold/<name>.json`."""

    def __init__(self, lake: Lake, name: str, layer: str = "gold") -> None:
        self._files = lake.files
        self._path = f"_brant/{layer}/{name}.json"
        self.table: LakeTable = lake.table(f"{layer}/{name}")

    @property
    def computed(self) -> Computed:
        content = self._files.read(self._path)
        if content is None:
            return Computed()
        try:
            return Computed(**json.loads(content))
        except (ValueError, TypeError) as error:
            raise PipelineError(f"{self._files.root}/{self._path} can't be read: {error}") from None

    def files(self) -> list[LakeFile]:
        paths = [(self._files.path_of(info), info.size) for info in self._files.files(self.table.name)]
        return [LakeFile(path, 0, size) for path, size in paths if folder_value(path, PARTITION)]

    def dates(self) -> set[str]:
        """Those that have rows."""
        return dates_of(self.files())

    def put(self, rows: DataFrame, dates: Collection[str], **known: object) -> None:
        """The rows in place of all that these dates had. Killed in the middle, it is simply done again."""
        # Its own lock: that of the table is taken while folders are swapped.
        with self._files.locked(f"{self._path}.lock", f"the table {self.table.name}"):
            self.table.replace_partitions(rows, [f"{PARTITION}={date}" for date in dates])
            before = self.computed
            run = before.run + 1
            after = replace(before, run=run, dates={**before.dates, **dict.fromkeys(dates, run)})
            self._write(replace(after, **known))  # type: ignore[arg-type]

    def _write(self, computed: Computed) -> None:
        self._files.write(self._path, json.dumps(asdict(computed), indent=1, sort_keys=True).encode())


@contextmanager
def noting(lake: Lake, name: str) -> Iterator[None]:
    """While a table of gold is computed: when that was, and what went wrong, is noted for `status`."""
    before = RecomputedTable(lake, name).computed.run
    try:
        yield
    except Exception as error:
        Notes(lake.files, f"{GOLD}{name}").failed(sentence_of(error))
        raise
    after = RecomputedTable(lake, name).computed.run
    if after != before:
        Notes(lake.files, f"{GOLD}{name}").progressed(after, 0, 0.0)
