"""The log of a table in the lake: which files each batch has brought. Readers of the Parquet files don't need it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.files import LakeFiles

_DIGITS = 9
_LOOKS = 5


def batch_name(number: int) -> str:
    return f"{number:0{_DIGITS}}"


@dataclass(frozen=True)
class LakeFile:
    """One Parquet file, by its path from the lake's root."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Batch:
    """What one micro-batch of a query has written. Not yet complete: the files may or may not be in their places."""

    number: int
    query: str
    complete: bool = False
    files: tuple[LakeFile, ...] = ()
    written_at: float = 0.0
    facts: dict[str, object] = field(default_factory=dict)
    plan: str = ""
    """What the batch reads, in short: the same batch tried again has the same."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class _Moved(Exception):
    """A batch was folded into the base while it was being looked for."""


class BatchLog:
    """One small file a batch, written whole and synced before what it says is relied on.

    Compaction folds old batches into one file, the base: it takes the place of theirs in one step.
    """

    def __init__(self, files: LakeFiles, table: str) -> None:
        self._files = files
        self._table = table
        self.folder = f"_brant/{table.replace('/', '.')}"

    def numbers(self) -> list[int]:
        # The files first: what is folded meanwhile is in the base by then.
        own = self._own_numbers()
        up_to, folded = self._base()
        return [batch.number for batch in folded] + [number for number in own if number > up_to]

    def last(self) -> Batch | None:
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def last_complete(self) -> int:
        """Its number; -1 when there is none. A batch is begun only after the one before it is complete."""
        last = self.last()
        if last is None:
            return -1
        return last.number if last.complete else last.number - 1

    def read(self, number: int) -> Batch:
        found = [batch for batch in self.between(number - 1, number) if batch.number == number]
        if not found:
            raise self._missing(number)
        return found[0]

    def between(self, after: int, to: int) -> list[Batch]:
        """The batches behind `after`, up to and with `to`."""
        for _ in range(_LOOKS):
            try:
                return self._look(after, to)
            except _Moved as moved:
                missing = int(moved.args[0])
        raise self._missing(missing)

    def write(self, batch: Batch) -> None:
        self._files.write(self._path(batch.number), json.dumps(asdict(batch), indent=1).encode())

    def complete(self, batch: Batch) -> None:
        self.write(replace(batch, complete=True))

    def fold(self, up_to: int, batches: Sequence[Batch]) -> None:
        """From now on these are the batches up to that number; in one step."""
        stored = {"up_to": up_to, "batches": [asdict(batch) for batch in batches]}
        self._files.write(self._base_path, json.dumps(stored).encode())

    def folded_up_to(self) -> int:
        return self._base()[0]

    def drop_folded(self) -> None:
        up_to, _ = self._base()
        for number in self._own_numbers():
            if number <= up_to:
                self._files.remove(self._path(number))

    def _look(self, after: int, to: int) -> list[Batch]:
        own = [number for number in self._own_numbers() if after < number <= to]
        up_to, folded = self._base()
        found = [batch for batch in folded if after < batch.number <= to]
        for number in own:
            if number > up_to:
                content = self._files.read(self._path(number))
                if content is None:
                    raise _Moved(number)
                found.append(self._parsed(content, self._path(number))[0])
        return found

    def _base(self) -> tuple[int, list[Batch]]:
        content = self._files.read(self._base_path)
        if content is None:
            return -1, []
        try:
            stored = json.loads(content)
            return int(stored["up_to"]), [stored_batch(each) for each in stored["batches"]]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unreadable(self._base_path, error) from None

    def _parsed(self, content: bytes, path: str) -> list[Batch]:
        try:
            return [stored_batch(json.loads(content))]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unreadable(path, error) from None

    def _own_numbers(self) -> list[int]:
        names = self._files.names(f"{self.folder}/batches")
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())

    def _unreadable(self, path: str, error: Exception) -> PipelineError:
        return PipelineError(f"{self._files.root}/{path} can't be read: {error}")

    def _missing(self, number: int) -> PipelineError:
        return PipelineError(f"{self._files.root}/{self._path(number)} is missing: the lake's log is damaged")

    def _path(self, number: int) -> str:
        return f"{self.folder}/batches/{batch_name(number)}.json"

    @property
    def _base_path(self) -> str:
        return f"{self.folder}/base.json"

    @property
    def lock_path(self) -> str:
        """Held by the query that writes the table, for as long as it runs."""
        return f"{self.folder}/lock"

    @property
    def change_path(self) -> str:
        """Held while files come to their places."""
        return f"{self.folder}/change.lock"

    @property
    def staging(self) -> str:
        return f"_brant/staging/{self._table.replace('/', '.')}"


def stored_batch(stored: dict[str, Any]) -> Batch:
    files = tuple(LakeFile(**file) for file in stored.pop("files"))
    return Batch(**stored, files=files)


def folded(batches: Iterable[Batch], files_of: dict[int, list[LakeFile]]) -> list[Batch]:
    """The batches with these files; those left without any are joined with the next one, their numbers added up."""
    result: list[Batch] = []
    carried: dict[str, object] = {}
    last: Batch | None = None
    for batch in batches:
        now = replace(batch, files=tuple(files_of.get(batch.number, ())), facts=_sum_of(carried, batch.facts))
        if now.files:
            result.append(now)
            carried, last = {}, None
        else:
            carried, last = now.facts, now
    return result if last is None else [*result, last]


def _sum_of(facts: dict[str, object], more: dict[str, object]) -> dict[str, object]:
    total = {**facts, **more}
    for name in facts.keys() & more.keys():
        one, other = facts[name], more[name]
        if _is_number(one) and _is_number(other):
            total[name] = one + other  # type: ignore[operator]
    return total


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
