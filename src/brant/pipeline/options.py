"""The options of the format `brant`: parsed and checked, a wrong name answered with the nearest right one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches

from brant.config import is_address
from brant.pipeline.errors import PipelineError
from brant.pipeline.tables import TABLES, Table

READ_OPTIONS = (
    "path",
    "table",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "consumer",
    "groupId",
    "columns",
    "tenantColumn",
    "fetchSize",
    "engine",
)
ENGINES = ("auto", "adbc", "sqlite3")
EARLIEST, LATEST = -2, -1
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def checked_options(given: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The given options under their proper names, whatever their case; an unknown one is an error."""
    proper = {name.lower(): name for name in known}
    found = {}
    for name, value in given.items():
        if name.lower() not in proper:
            near = get_close_matches(name.lower(), proper, 1)
            hint = f"did you mean {proper[near[0]]!r}?" if near else f"known are {', '.join(proper.values())}"
            raise PipelineError(f"unknown option {name!r}; {hint}")
        found[proper[name.lower()]] = value
    return found


def whole_number(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise PipelineError(f"option {name!r} must be a whole number of at least {least}, not {text!r}")
    return number


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    raise PipelineError(f"option {name!r} must be true or false, not {text!r}")


def choice(options: Mapping[str, str], name: str, choices: Iterable[str]) -> str:
    """The value of an option that has few; the first choice is the default."""
    possible = list(choices)
    text = options.get(name, possible[0])
    if text.lower() not in possible:
        near = get_close_matches(text.lower(), possible, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PipelineError(f"option {name!r} must be one of {', '.join(possible)}, not {text!r}{hint}")
    return text.lower()


@dataclass(frozen=True)
class Position:
    """Where to begin or end: an offset for each tenant or for all, EARLIEST or LATEST, or a time."""

    everywhere: int | None = None
    by_tenant: Mapping[str, int] = field(default_factory=dict)
    timestamp: float | None = None

    def is_explicit(self, tenant: str) -> bool:
        """Whether it names an offset, which may be gone."""
        return self.timestamp is None and self.of(tenant, EARLIEST) >= 0

    def of(self, tenant: str, default: int) -> int:
        if self.everywhere is not None:
            return self.everywhere
        return self.by_tenant.get(tenant, default)


@dataclass(frozen=True)
class ReadOptions:
    path: str
    table: Table
    names: tuple[str, ...] | None = None
    pattern: str | None = None
    starting: Position | None = None
    ending: Position | None = None
    most_per_trigger: int | None = None
    least_per_trigger: int | None = None
    most_trigger_delay_s: float = 900.0
    least_slices: int | None = None
    most_per_slice: int | None = None
    fail_on_data_loss: bool = True
    consumer: str | None = None
    columns: tuple[str, ...] | None = None
    tenant_column: str | None = None
    """None: `tenant` where the path stands for many files. Empty: never."""
    fetch_size: int = 8192
    engine: str = "auto"


def read_options(given: Mapping[str, str]) -> ReadOptions:
    options = checked_options(given, READ_OPTIONS)
    if not options.get("path"):
        raise PipelineError("option 'path' is missing: the database, or a folder or glob of databases")
    if "subscribe" in options and "subscribePattern" in options:
        raise PipelineError("give 'subscribe' or 'subscribePattern', not both")
    if options.get("consumer", options.get("groupId")) != options.get("groupId", options.get("consumer")):
        raise PipelineError("'consumer' and 'groupId' are one option under two names; give one of them")
    if is_address(options["path"]) and choice(options, "engine", ENGINES) != "auto":
        raise PipelineError("option 'engine' is for files; a server has one driver")
    table = TABLES[choice(options, "table", TABLES)]
    _refuse_pointless(options, table)
    return ReadOptions(
        path=options["path"],
        table=table,
        names=_list(options, "subscribe"),
        pattern=_pattern(options),
        starting=_position(options, "starting"),
        ending=_position(options, "ending"),
        most_per_trigger=whole_number(options, "maxOffsetsPerTrigger"),
        least_per_trigger=whole_number(options, "minOffsetsPerTrigger"),
        most_trigger_delay_s=_duration(options, "maxTriggerDelay", 900.0),
        least_slices=whole_number(options, "minPartitions"),
        most_per_slice=whole_number(options, "maxRecordsPerPartition"),
        fail_on_data_loss=flag(options, "failOnDataLoss", True),
        consumer=options.get("consumer", options.get("groupId")) or None,
        columns=_list(options, "columns"),
        tenant_column=_tenant_column(options),
        fetch_size=whole_number(options, "fetchSize") or 8192,
        engine=choice(options, "engine", ENGINES),
    )


def _refuse_pointless(options: Mapping[str, str], table: Table) -> None:
    if table.named_by is None:
        refused = ["subscribe", "subscribePattern"]
    elif table.topic is not None:
        refused = ["subscribePattern"]
    elif table.append_only:
        refused = []
    else:
        refused = ["startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "consumer", "groupId"]
    for name in refused:
        if name in options:
            raise PipelineError(f"option {name!r} has no meaning for the table {table.name!r}")
    if table.stored_in != "stream" and ("consumer" in options or "groupId" in options):
        raise PipelineError(f"consumers are kept for streams only, not for the table {table.name!r}")


def _list(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    text = options.get(name)
    if text is None:
        return None
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise PipelineError(f"option {name!r} names nothing: {text!r}")
    return parts


def _pattern(options: Mapping[str, str]) -> str | None:
    text = options.get("subscribePattern")
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise PipelineError(f"option 'subscribePattern' is no regular expression: {text!r}: {error}") from error
    return text


def _tenant_column(options: Mapping[str, str]) -> str | None:
    text = options.get("tenantColumn")
    if text is None:
        return None
    if text.lower() in _TRUE:
        return "tenant"
    return "" if text.lower() in _FALSE else text


def _position(options: Mapping[str, str], side: str) -> Position | None:
    by_offset, by_time = f"{side}Offsets", f"{side}Timestamp"
    if by_offset in options and by_time in options:
        raise PipelineError(f"give {by_offset!r} or {by_time!r}, not both")
    if by_time in options:
        return Position(timestamp=_timestamp(by_time, options[by_time]))
    return _offsets(by_offset, options[by_offset]) if by_offset in options else None


def _offsets(name: str, text: str) -> Position:
    special = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in special:
        return Position(everywhere=special[text.lower()])
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if _is_offset(value):
        return Position(everywhere=value)
    if isinstance(value, dict) and all(_is_offset(offset) for offset in value.values()):
        return Position(by_tenant=value)
    raise PipelineError(
        f"option {name!r} must be earliest, latest, an offset or a JSON object of offsets by tenant such as "
        f'{{"app": 1}} (-2 is earliest, -1 latest), not {text!r}'
    )


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= EARLIEST


def _timestamp(name: str, text: str) -> float:
    try:
        return int(text) / 1000  # milliseconds, as in Kafka's options
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"option {name!r} must be milliseconds since 1970 or a date such as 2026-05-31T12:00, not {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _duration(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*", text)
    if match is None:
        raise PipelineError(f"option {name!r} must be a time such as 30s or 15m, not {text!r}")
    return float(match[1]) * _UNITS_S[match[2]]
