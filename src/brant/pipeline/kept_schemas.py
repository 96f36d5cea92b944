"""The schemas of silver tables, kept in the lake: each version as it was, and what may not change between two."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.files import LakeFiles

INFER = "infer"
VARIANT = "variant"


@dataclass(frozen=True)
class KeptSchema:
    """How the payloads of a table are read: its columns, or none where they stay VARIANT."""

    version: int
    declared: str
    columns: StructType
    deduplicated: bool

    @property
    def is_variant(self) -> bool:
        return self.declared == VARIANT


class KeptSchemas:
    """Those of one table, `_brant/schemas/<name>/<version>.json`, or, with a suffix, others of the same table."""

    def __init__(self, files: LakeFiles, name: str, suffix: str = "") -> None:
        self._files = files
        self._name = name
        self._folder = f"_brant/schemas/{name}{suffix}"

    def versions(self) -> list[int]:
        names = self._files.names(self._folder)
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())

    def last(self) -> KeptSchema | None:
        versions = self.versions()
        return self.read(versions[-1]) if versions else None

    def read(self, version: int) -> KeptSchema:
        path = f"{self._folder}/{version}.json"
        try:
            stored = json.loads(self._files.read(path) or b"")
            columns = StructType.fromJson(stored["columns"])
            return KeptSchema(version, str(stored["declared"]), columns, bool(stored["deduplicated"]))
        except (ValueError, TypeError, KeyError) as error:
            raise PipelineError(f"{self._files.root}/{path} can't be read: {error}") from None

    def settle(self, declared: str, columns: StructType, deduplicated: bool, *, has_rows: bool = True) -> KeptSchema:
        """The version to go on with: the last one if nothing has changed, else a new one; or a refusal."""
        self.require_fitting(declared, columns, deduplicated, has_rows=has_rows)
        last = self.last()
        if last is not None and (last.columns, last.declared) == (columns, declared):
            return last
        kept = KeptSchema(last.version + 1 if last else 1, declared, columns, deduplicated)
        self._write(kept)
        return kept

    def require_fitting(self, declared: str, columns: StructType, deduplicated: bool, *, has_rows: bool = True) -> None:
        """Refuse what the rows that are there, if there are any, or the query's state can't follow."""
        last = self.last()
        if last is None:
            return
        if has_rows:
            self._require_same_types(last, declared, columns)
        if last.deduplicated != deduplicated:
            was, will = ("with a key", "without one") if last.deduplicated else ("without a key", "with one")
            raise PipelineError(
                f"silver.{self._name} was begun {was} and can't go on {will}: declare a table of another name"
            )

    def _require_same_types(self, last: KeptSchema, declared: str, columns: StructType) -> None:
        if last.is_variant != (declared == VARIANT):
            raise PipelineError(
                f"silver.{self._name}: schema changes from {last.declared!r} to {declared!r}, which the rows that are "
                f"there can't follow: declare a table of another name"
            )
        for name, before, now in _changed_types(last.columns, columns):
            raise PipelineError(
                f"silver.{self._name}: the column {name} changes from {before} to {now}, which the rows that are "
                f"there can't follow: leave it, or declare a table of another name"
            )

    def _write(self, kept: KeptSchema) -> None:
        content = {
            "version": kept.version,
            "declared": kept.declared,
            "columns": kept.columns.jsonValue(),
            "deduplicated": kept.deduplicated,
        }
        self._files.write(f"{self._folder}/{kept.version}.json", json.dumps(content, indent=1).encode())


def _changed_types(before: DataType, now: DataType, path: str = "") -> list[tuple[str, str, str]]:
    """(column, type before, type now); columns that only one of them has are no change."""
    if isinstance(before, StructType) and isinstance(now, StructType):
        types = {field.name.lower(): field.dataType for field in now}
        return [
            change
            for field in before
            if field.name.lower() in types
            for change in _changed_types(
                field.dataType, types[field.name.lower()], f"{path}.{field.name}" if path else field.name
            )
        ]
    if isinstance(before, ArrayType) and isinstance(now, ArrayType):
        return _changed_types(before.elementType, now.elementType, path)
    if isinstance(before, MapType) and isinstance(now, MapType) and before.keyType == now.keyType:
        return _changed_types(before.valueType, now.valueType, path)
    # As texts, which leave out what does not matter to a reader: whether there may be NULL.
    return [] if before.simpleString() == now.simpleString() else [(path, before.simpleString(), now.simpleString())]
