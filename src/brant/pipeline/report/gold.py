"""The gold tables as the report wants them: read by pyarrow, added up over tenants, in steps that a chart can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from pyarrow import parquet as pq

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake import Lake
from brant.pipeline.lake.selection import folder_value
from brant.pipeline.project import METRICS_TABLES, WEBHOOK_TABLES

Row = dict[str, Any]
BUILT_IN = (*METRICS_TABLES, *WEBHOOK_TABLES)
MOST_POINTS = 120
_STEPS_S = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400)
_TRIES = 3


@dataclass(frozen=True)
class Gold:
    """All that the report shows. Rows of the built-in tables are as the tables have them."""

    first: date | None = None
    last: date | None = None
    topics: Sequence[Row] = ()
    queues: Sequence[Row] = ()
    tasks: Sequence[Row] = ()
    dead_letters: Sequence[Row] = ()
    webhooks: Sequence[Row] = ()
    webhook_providers: Sequence[Row] = ()
    webhook_rejects: Sequence[Row] = ()
    others: Mapping[str, Sequence[Row]] = field(default_factory=dict)


def read_gold(lake: Lake, days: int) -> Gold:
    """The tables of gold over the last days that they have."""
    names = [name for name in lake.files.names("gold") if not name.startswith(("_", "."))]
    if not names:
        raise PipelineError(f"there are no gold tables in {lake.root} yet: run `brant pipeline run` first")
    dates = sorted({day for name in names for day in _dates(lake, name)})
    if not dates:
        return Gold()
    last = dates[-1]
    first = max(dates[0], last - timedelta(days=days - 1))
    tables = {name: _rows(lake, name, first) for name in names}
    others = {name: rows for name, rows in tables.items() if name not in BUILT_IN}
    return Gold(first, last, **{name: tables.get(name, []) for name in BUILT_IN}, others=others)


def _dates(lake: Lake, name: str) -> list[date]:
    found = (folder.partition("=") for folder in lake.files.names(f"gold/{name}"))
    return [date.fromisoformat(value) for key, _, value in found if key == "date" and value[:1].isdigit()]


def _rows(lake: Lake, name: str, first: date) -> list[Row]:
    """A date that is computed anew meanwhile takes its files away: then its folder is listed again."""
    for attempt in range(_TRIES):
        try:
            return list(_read(lake, name, first))
        except FileNotFoundError:
            if attempt == _TRIES - 1:
                raise
    return []


def _read(lake: Lake, name: str, first: date) -> Iterable[Row]:
    for info in lake.files.files(f"gold/{name}"):
        path = lake.files.path_of(info)
        day = folder_value(path, "date") or ""
        if info.base_name.endswith(".parquet") and day[:1].isdigit() and date.fromisoformat(day) >= first:
            with lake.files.open(path) as file:
                for row in pq.ParquetFile(file).read().to_pylist():
                    yield {**row, "date": day}


@dataclass(frozen=True)
class Series:
    """A line of a chart: a value for each point in time, None where there is none."""

    name: str
    values: tuple[float | None, ...]

    @property
    def total(self) -> float:
        return sum(value or 0 for value in self.values)


@dataclass(frozen=True)
class Timeline:
    """The points in time of a chart."""

    start: datetime
    step_s: int
    points: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Timeline | None:
        """Over the windows of all rows, in steps that are long enough for one chart."""
        moments = sorted({_moment(row) for row in rows})
        if not moments:
            return None
        gaps = [int((after - before).total_seconds()) for before, after in pairwise(moments)]
        window = min(gaps, default=_STEPS_S[1])
        span = (moments[-1] - moments[0]).total_seconds() + window
        fitting = [step for step in _STEPS_S if step >= window and span / step <= MOST_POINTS]
        step = fitting[0] if fitting else _STEPS_S[-1]
        start = datetime.fromtimestamp(moments[0].timestamp() // step * step, UTC)
        return cls(start, step, int((moments[-1] - start).total_seconds() // step) + 1)

    def at(self, point: int) -> datetime:
        return self.start + timedelta(seconds=self.step_s * point)

    def place(self, row: Row) -> int:
        return int((_moment(row) - self.start).total_seconds() // self.step_s)

    def sums(self, rows: Iterable[Row], column: str, name: str) -> Series:
        values = [0.0] * self.points
        for row in rows:
            values[self.place(row)] += row.get(column) or 0
        return Series(name, tuple(values))

    def worst(self, rows: Iterable[Row], column: str, name: str) -> Series:
        """Percentiles can't be added up: of several windows or tenants, the worst is shown."""
        values: list[float | None] = [None] * self.points
        for row in rows:
            value, place = row.get(column), self.place(row)
            if value is not None:
                values[place] = max(value, values[place] or 0.0)
        return Series(name, tuple(values))


def _moment(row: Row) -> datetime:
    moment: datetime = row["window_start"]
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def total(rows: Iterable[Row], column: str) -> int:
    return int(sum(row.get(column) or 0 for row in rows))


def worst(rows: Iterable[Row], column: str) -> float | None:
    return max((row[column] for row in rows if row.get(column) is not None), default=None)


def by(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """The rows of each value of a column."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get(column)), []).append(row)
    return groups


def busiest(groups: dict[str, list[Row]], column: str) -> list[str]:
    return sorted(groups, key=lambda name: (-total(groups[name], column), name))
