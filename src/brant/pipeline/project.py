"""`brant-pipeline.toml`: which databases, which lake, which tables, when."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar, get_type_hints

from brant.pipeline.errors import PipelineError

FILE_NAME = "brant-pipeline.toml"
_SECTIONS = ("pipeline", "archive", "silver", "metrics", "gold", "schedule")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DURATION = re.compile(r"(\d+)\s*(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LAKE_FORMATS = ("parquet", "delta")
# The gold tables that Brant computes itself.
METRICS_TABLES = ("topics", "queues", "tasks", "dead_letters")
WEBHOOK_TABLES = ("webhooks", "webhook_providers", "webhook_rejects")
_BRONZE = ("bronze.events", "bronze.deliveries", "bronze.attempts", "bronze.rejects")
_DAY_S = 86_400

T = TypeVar("T")


@dataclass(frozen=True)
class Archive:
    """Bronze: every event of the topics, as it was published."""

    topics: tuple[str, ...] = ()
    max_events_per_batch: int = 500_000
    prune: bool = False


@dataclass(frozen=True)
class Silver:
    """Events of a topic, typed, each once, without what should not be there."""

    name: str
    topic: str
    schema: str = "infer"
    key: tuple[str, ...] = ()
    dedupe_within: str = "1d"
    event_time: str | None = None
    late_after: str | None = None
    redact: tuple[str, ...] = ()
    hash: tuple[str, ...] = ()
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Metrics:
    """The gold tables that Brant computes itself, by window of time. A job that waits or runs for longer than
    `lookback` counts without its times."""

    window: str = "5m"
    lookback: str = "2d"


@dataclass(frozen=True)
class Gold:
    """A table of the project's own, computed anew for each date that changed; `sources` are names of lake tables."""

    name: str
    sources: tuple[str, ...]
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Project:
    """A pipeline as its file says; relative paths are relative to the file."""

    folder: str
    database: str = field(repr=False)  # an address may have a password
    lake: str
    format: str = "parquet"
    master: str | None = None
    remote: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    archive: Archive = Archive()
    silver: tuple[Silver, ...] = ()
    metrics: Metrics = Metrics()
    gold: tuple[Gold, ...] = ()
    schedule: Mapping[str, str] = field(default_factory=dict)


def load(path: str = FILE_NAME) -> Project:
    """Read a project file; what is wrong in it is said in one sentence with its place."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        raise PipelineError(f"there is no {path}: `brant pipeline init` makes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PipelineError(f"{path} can't be read: {error}") from None
    return _Reader(path).project(content)


def seconds(duration: str, where: str = "duration") -> int:
    """`90s`, `5m`, `1h` or `7d`."""
    match = _DURATION.fullmatch(duration.strip()) if isinstance(duration, str) else None
    if match is None or int(match[1]) == 0:
        raise PipelineError(f"{where}: {duration!r} is not a duration: write a number and s, m, h or d, as in 5m")
    return int(match[1]) * _UNITS[match[2]]


def in_order(tables: Collection[Gold]) -> list[Gold]:
    """Each table behind those that it is made from."""
    by_name = {f"gold.{table.name}": table for table in tables}
    graph = {name: [source for source in table.sources if source in by_name] for name, table in by_name.items()}
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        circle = " <- ".join(error.args[1])
        raise PipelineError(f"gold tables are made from each other in a circle: {circle}") from None


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = os.path.dirname(os.path.abspath(path))

    def project(self, content: dict[str, Any]) -> Project:
        self._only_known(content, _SECTIONS, "")
        settings = self._section(content, "pipeline")
        archive = self._made(Archive, self._section(content, "archive"), "archive")
        metrics = self._made(Metrics, self._section(content, "metrics"), "metrics")
        self._check_metrics(metrics)
        if archive.max_events_per_batch < 1:
            raise self._error("archive", "max_events_per_batch", "must be 1 or more")
        project = self._made(
            Project,
            {"database": "", "lake": "lake", **settings},
            "pipeline",
            folder=self._folder,
            archive=archive,
            metrics=metrics,
            silver=self._tables(content, "silver", self._silver),
            gold=self._tables(content, "gold", self._gold),
            schedule=self._schedule(self._section(content, "schedule")),
        )
        return self._checked(project)

    def _check_metrics(self, metrics: Metrics) -> None:
        if _DAY_S % seconds(metrics.window, self._at("metrics", "window")):
            raise self._error("metrics", "window", f"must divide a day, as 5m or 1h does, not {metrics.window!r}")
        seconds(metrics.lookback, self._at("metrics", "lookback"))

    def _checked(self, project: Project) -> Project:
        if not project.database:
            raise self._error(
                "pipeline", "database", "is missing: name a file, a folder of files, a glob or an address"
            )
        if project.format not in LAKE_FORMATS:
            raise self._error("pipeline", "format", f"must be one of {', '.join(LAKE_FORMATS)}, not {project.format!r}")
        known = {*_BRONZE, *(f"silver.{table.name}" for table in project.silver)}
        known |= {f"gold.{name}" for name in (*METRICS_TABLES, *WEBHOOK_TABLES, *(each.name for each in project.gold))}
        for table in project.gold:
            for source in table.sources:
                if source not in known:
                    raise self._error(
                        f"gold.{table.name}", "sources", f"{source!r} is no table{_nearest(source, known)}"
                    )
        in_order(project.gold)
        return replace(project, database=self._path_of(project.database), lake=self._path_of(project.lake))

    def _path_of(self, path: str) -> str:
        """Seen from the file's folder, unless it is an address of another kind."""
        return path if "://" in path else os.path.join(self._folder, os.path.expanduser(path))

    def _silver(self, name: str, settings: dict[str, Any]) -> Silver:
        where = f"silver.{name}"
        table = self._made(Silver, settings, where, name=name)
        self._one_step(where, table.sql, table.python)
        self._check_rules(where, table)
        seconds(table.dedupe_within, self._at(where, "dedupe_within"))
        if table.late_after is not None:
            seconds(table.late_after, self._at(where, "late_after"))
            if table.event_time is None:
                raise self._error(where, "late_after", "needs event_time: the column that says when it happened")
        return table

    def _check_rules(self, where: str, table: Silver) -> None:
        if not table.topic:
            raise self._error(where, "topic", "is empty: name the topic whose events the table holds")
        if table.schema == "variant" and (table.redact or table.hash):
            raise self._error(
                where, "schema", 'is "variant", and there are rules for fields: they need "infer" or columns'
            )
        for path in set(table.redact) & set(table.hash):
            raise self._error(where, "hash", f"and redact both name {path!r}: choose one")
        for setting in ("key", "redact", "hash"):
            paths = getattr(table, setting)
            if any(not part for path in paths for part in path.split(".")):
                raise self._error(where, setting, "must name fields, with dots for those inside others: user.email")
            if len(set(paths)) < len(paths):
                raise self._error(where, setting, "names a field twice")

    def _gold(self, name: str, settings: dict[str, Any]) -> Gold:
        where = f"gold.{name}"
        table = self._made(Gold, settings, where, name=name)
        if name in (*METRICS_TABLES, *WEBHOOK_TABLES):
            raise self._error("gold", name, "is a table of Brant's own metrics: choose another name")
        if not table.sources:
            raise self._error(where, "sources", 'is empty: name the tables that it is made from, as "silver.orders"')
        if table.sql is None and table.python is None:
            raise self._error(where, "sql", "is missing: a table needs sql or python")
        self._one_step(where, table.sql, table.python)
        return table

    def _one_step(self, where: str, sql: str | None, python: str | None) -> None:
        if sql is not None and python is not None:
            raise self._error(where, "python", "and sql exclude each other: a table has one step")
        if python is not None and not re.fullmatch(r"[\w.]+:\w+", python):
            raise self._error(where, "python", f"must name a function as module:function, not {python!r}")

    def _schedule(self, settings: dict[str, Any]) -> dict[str, str]:
        self._only_known(settings, ("archive", "refine", "metrics", "compact"), "schedule")
        for job, every in settings.items():
            seconds(every, self._at("schedule", job))
        return settings

    def _tables(self, content: dict[str, Any], section: str, make: Callable[[str, dict[str, Any]], T]) -> tuple[T, ...]:
        made = []
        for name, settings in self._section(content, section).items():
            if not _NAME.fullmatch(name):
                raise self._error(section, name, "is no name for a table: use small letters, digits and _")
            if not isinstance(settings, dict):
                raise self._error(section, name, f"must be a table: write [{section}.{name}]")
            made.append(make(name, settings))
        return tuple(made)

    def _section(self, content: dict[str, Any], name: str) -> dict[str, Any]:
        section = content.get(name, {})
        if not isinstance(section, dict):
            raise self._error("", name, f"must be a section: write [{name}]")
        return section

    def _made(self, kind: type[T], settings: dict[str, Any], where: str, **given: Any) -> T:
        """An instance of a dataclass from the settings of a section, each of its declared type."""
        hints = get_type_hints(kind)
        settable = [f for f in fields(kind) if f.name not in given]  # type: ignore[arg-type]
        self._only_known(settings, [f.name for f in settable], where)
        for setting in settable:
            if setting.name in settings:
                given[setting.name] = self._typed(settings[setting.name], hints[setting.name], where, setting.name)
            elif setting.default is MISSING and setting.default_factory is MISSING:
                raise self._error(where, setting.name, "is missing")
        return kind(**given)

    def _typed(self, value: object, wanted: object, where: str, name: str) -> object:
        if wanted == tuple[str, ...]:
            values = [value] if isinstance(value, str) else value
            if isinstance(values, list) and all(isinstance(item, str) for item in values):
                return tuple(values)
            raise self._error(where, name, "must be a text or a list of texts")
        if wanted == Mapping[str, str]:
            if isinstance(value, dict):
                return {str(key): str(item) for key, item in value.items()}
            raise self._error(where, name, "must be a table of settings")
        kinds = {int: "a whole number", bool: "true or false"}
        kind = wanted if wanted in kinds else str
        if type(value) is not kind:
            raise self._error(where, name, f"must be {kinds.get(wanted, 'a text')}, not {value!r}")  # type: ignore[call-overload]
        return value

    def _only_known(self, given: Mapping[str, Any], known: Any, where: str) -> None:
        for name in given:
            if name not in known:
                raise self._error(where, name, f"is no setting{_nearest(name, known)}")

    def _error(self, where: str, name: str, text: str) -> PipelineError:
        return PipelineError(f"{self._at(where, name)} {text}")

    def _at(self, where: str, name: str) -> str:
        return f"{self._path}: {where}.{name}" if where else f"{self._path}: {name}"


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
