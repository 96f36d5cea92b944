"""Tables of the lake that are Delta tables as well.

The files lie where they always lie, for any reader of Parquet; the log of Delta names the same files.
A batch enters it as one transaction with the query's id and the batch's number, so it enters once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet as pq

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.batches import Batch, LakeFile
from brant.pipeline.lake.table import LakeTable

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.transaction import AddAction, RemoveAction
except ImportError:
    raise PipelineError("a lake of Delta tables needs deltalake: pip install 'brant[delta]'") from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_TYPES = {"date": pa.date32()}


class DeltaLakeTable(LakeTable):
    """As any table of the lake, with Delta's log beside the files."""

    def announce(self, batch: Batch) -> None:
        self._commit(batch.files, (), CommitProperties(app_transactions=[Transaction(batch.query, batch.number)]))

    def is_announced(self, batch: Batch) -> bool:
        if not batch.files or not DeltaTable.is_deltatable(self._uri):
            return False
        version = DeltaTable(self._uri).transaction_version(batch.query)
        return version is not None and version >= batch.number

    def announce_swaps(self) -> None:
        numbers = self.log.numbers()
        batches = self.log.between(-1, numbers[-1]) if numbers else []
        self._mirror([file for batch in batches if batch.complete or self.is_announced(batch) for file in batch.files])

    def _replace_partitions(self, frame: DataFrame, folders: Collection[str]) -> list[LakeFile]:
        replaced = super()._replace_partitions(frame, folders)
        there = [info for info in self.files.files(self.name) if info.base_name.endswith(".parquet")]
        in_place = [(info, self.files.path_of(info)) for info in there]
        self._mirror([self._counted(info, path) for info, path in in_place if "/_delta_log/" not in path])
        return replaced

    @property
    def _uri(self) -> str:
        return self.files.url(self.name)

    def _mirror(self, wanted: Sequence[LakeFile]) -> None:
        """Have Delta's log name exactly these files; what it lacks after a kill, it gets here."""
        known: set[str] = set()
        if DeltaTable.is_deltatable(self._uri):
            actions = pa.table(DeltaTable(self._uri).get_add_actions())
            known = {self._path_of(path) for path in actions.column("path").to_pylist()}
        names = {file.path for file in wanted}
        self._commit([file for file in wanted if file.path not in known], sorted(known - names), None)

    def _commit(self, added: Sequence[LakeFile], removed: Iterable[str], properties: CommitProperties | None) -> None:
        removals = list(removed)
        if not added and not removals:
            return
        columns = [*self._folders(added[0].path if added else removals[0])]
        table, schema = self._opened(added, columns)
        now = int(time.time() * 1000)
        actions: list[Any] = [self._add(file, now) for file in added]
        actions += [
            RemoveAction(self._name_of(path), True, now, partition_values=self._folders(path)) for path in removals
        ]
        table.create_write_transaction(actions, "append", schema, columns, commit_properties=properties)
        self._sync_log()

    def _opened(self, added: Sequence[LakeFile], columns: Sequence[str]) -> tuple[DeltaTable, Schema]:
        """The table, with the columns that these files have."""
        stored: dict[str, pa.Field] = {}
        for file in added:
            with self.files.open(file.path) as opened:
                stored |= {field.name: field for field in pq.read_schema(opened)}
        fields = [field.remove_metadata().with_nullable(True) for field in stored.values()]
        wanted = Schema.from_arrow(
            pa.schema([*fields, *(pa.field(name, _TYPES.get(name, pa.string())) for name in columns)])
        )
        if not DeltaTable.is_deltatable(self._uri):
            return DeltaTable.create(self._uri, wanted, partition_by=list(columns)), wanted
        table = DeltaTable(self._uri)
        known = {field.name for field in table.schema().fields}
        new = [field for field in wanted.fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            table = DeltaTable(self._uri)
        return table, table.schema()

    def _add(self, file: LakeFile, now: int) -> AddAction:
        return AddAction(
            self._name_of(file.path), file.bytes, self._folders(file.path), now, True, f'{{"numRecords": {file.rows}}}'
        )

    def _name_of(self, path: str) -> str:
        """From the table's folder on. deltalake spells it as a URL itself, and gives it back spelled so."""
        return path[len(self.name) + 1 :]

    def _path_of(self, name: str) -> str:
        return f"{self.name}/{unquote(name)}"

    def _folders(self, path: str) -> dict[str, str | None]:
        pairs = (part.partition("=") for part in path[len(self.name) + 1 :].split("/")[:-1])
        return {name: None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}

    def _sync_log(self) -> None:
        log = f"{self.name}/_delta_log"
        newest = [name for name in self.files.names(log) if name.endswith(".json")][-2:]
        for path in (*(f"{log}/{name}" for name in newest), log, self.name):
            self.files.sync(path)
