"""From the lake back into a stream or a queue, each event once, however often the replay is cut off."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import brant
from brant.clock import Clock
from brant.config import is_address, without_password
from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_of
from brant.pipeline.jobs.replay_plan import Asked, Chunk, KeptPlan, Selection, moment
from brant.pipeline.lake import Lake
from brant.pipeline.marks import last_version
from brant.pipeline.project import Project
from brant.pipeline.tenants import Tenants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_AT_ONCE = 20_000
_LONGEST_NAP_S = 0.5
_SHOWN = 5

T = TypeVar("T")


@dataclass(frozen=True)
class ReplayResult:
    """What a replay has done, or would do."""

    id: str
    events: int
    """All that were asked for."""
    written: int = 0
    written_before: int = 0
    """By earlier runs with the same id."""
    by_topic: dict[str, int] = field(default_factory=dict)
    sample: tuple[dict[str, Any], ...] = ()
    """A few of them, from a dry run."""

    @property
    def is_finished(self) -> bool:
        return self.written + self.written_before == self.events


def replay(
    spark: SparkSession,
    project: Project,
    topics: str | Sequence[str] = (),
    *,
    to: str,
    database: str | None = None,
    where: str | None = None,
    since: datetime | str | float | None = None,
    until: datetime | str | float | None = None,
    tenant: str | None = None,
    rate: float | None = None,
    id: str | None = None,  # noqa: A002
    dry_run: bool = False,
    on_progress: Callable[[ReplayResult], None] = lambda _: None,
    stop_requested: Callable[[], bool] = lambda: False,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> ReplayResult:
    """Publish events of the lake again: `to` is stream:NAME, queue:NAME, or stream for each event's own topic.

    `where` is SQL over offset, key, payload, created_at, tenant, topic and date. A replay that was cut off goes on when
    it is run again with the same `id`, and repeats nothing. `rate` is events a second, never exceeded by more than one
    second's worth.
    """
    if rate is not None and not rate > 0:
        raise PipelineError(f"the rate must be more than 0 events a second, not {rate}")
    lake = Lake.of(project)
    target = _target_database(project, database)
    asked = Asked(
        _checked_target(to),
        without_password(target),  # it is kept in the lake
        (topics,) if isinstance(topics, str) else tuple(sorted(set(topics))),
        where,
        moment(since, "since"),
        moment(until, "until"),
        tenant,
    )
    selection = Selection(spark, lake, asked)
    name = id or uuid.uuid4().hex[:12]
    if dry_run:
        return _counted(selection, name)
    plan = KeptPlan(lake, name)
    with lake.files.locked(plan.lock_path, f"the replay {name!r}"):
        size = max(1, int(min(rate or _MOST_AT_ONCE, _MOST_AT_ONCE)))
        chunks = _planned(plan, selection, asked, target, name, size)
        pace = _Pace(rate, clock or Clock(), sleep, stop_requested)
        return _Run(selection, asked, target, name, chunks).run(pace, on_progress)


def _checked_target(to: str) -> str:
    kind, _, name = to.partition(":")
    if to == "stream" or (kind in ("stream", "queue") and name):
        return to
    raise PipelineError(f"to: {to!r} must be stream:NAME, queue:NAME, or stream for each event's own topic")


def _target_database(project: Project, database: str | None) -> str:
    if database is not None:
        return database if is_address(database) else os.path.abspath(database)
    tenants = Tenants(project.database)
    if tenants.is_many:
        raise PipelineError(f"{tenants} stands for many databases: say which one the events go to")
    return tenants.path


def _counted(selection: Selection, name: str) -> ReplayResult:
    rows = selection.rows()
    if rows is None:
        return ReplayResult(name, 0)
    by_topic = _told(lambda: {row["topic"]: row["count"] for row in rows.groupBy("topic").count().collect()})
    sample = tuple(row.asDict() for row in rows.limit(_SHOWN).collect())
    return ReplayResult(name, sum(by_topic.values()), by_topic=by_topic, sample=sample)


def _planned(plan: KeptPlan, selection: Selection, asked: Asked, target: str, name: str, size: int) -> list[Chunk]:
    chunks = plan.load(asked)
    if chunks is None:
        if _done(target, name) >= 0:
            raise PipelineError(
                f"{asked.database} has events of a replay {name!r} that the lake knows nothing of: choose another id"
            )
        chunks = _told(lambda: selection.chunks(size))
        plan.save(asked, chunks)
    return chunks


def _done(target: str, name: str) -> int:
    """The last chunk that is in the target, -1 for none. Only the target itself knows."""
    if not is_address(target) and not os.path.exists(target):
        return -1
    with brant.open(target) as db:
        return last_version(db, _app(name))


def _app(name: str) -> str:
    return f"replay:{name}"


def _told(work: Callable[[], T]) -> T:
    try:
        return work()
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"replay: {sentence_of(error)}") from error


class _Pace:
    """Lets events pass no faster than the rate."""

    def __init__(
        self, rate: float | None, clock: Clock, sleep: Callable[[float], None], stop_requested: Callable[[], bool]
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._stop_requested = stop_requested
        self._begun = clock.monotonic()

    def may_go_on(self, written: int) -> bool:
        """Waits until the events that were written are no more than the time allows; False when it is to stop."""
        due = self._begun + (written / self._rate if self._rate else 0)
        while not self._stop_requested():
            left = due - self._clock.monotonic()
            if left <= 0:
                return True
            self._sleep(min(left, _LONGEST_NAP_S))
        return False


class _Run:
    def __init__(self, selection: Selection, asked: Asked, target: str, name: str, chunks: Sequence[Chunk]) -> None:
        self._selection = selection
        self._asked = asked
        self._target = target
        self._name = name
        self._chunks = chunks

    def run(self, pace: _Pace, on_progress: Callable[[ReplayResult], None]) -> ReplayResult:
        done = _done(self._target, self._name)
        before = sum(chunk.rows for chunk in self._chunks[: done + 1])
        result = ReplayResult(self._name, sum(chunk.rows for chunk in self._chunks), written_before=before)
        on_progress(result)
        for number, chunk in enumerate(self._chunks):
            if number <= done:
                continue
            if not pace.may_go_on(result.written):
                break
            self._write(number, chunk)
            result = ReplayResult(self._name, result.events, result.written + chunk.rows, before)
            on_progress(result)
        return result

    def _write(self, number: int, chunk: Chunk) -> None:
        rows = self._selection.rows(chunk)
        if rows is None:
            raise PipelineError(f"the lake has lost events of the replay {self._name!r}: {chunk.rows} are missing")
        kind, _, name = self._asked.to.partition(":")
        columns = ["payload"] if kind == "queue" else ["payload", "key"] if name else ["payload", "key", "topic"]
        writer = (
            rows.repartition(1)
            .sortWithinPartitions("offset")
            .select(*columns)
            .write.format("brant")
            .mode("append")
            .option("path", self._target)
            .option("table", kind)
            .option("txnAppId", _app(self._name))
            .option("txnVersion", number)
        )
        if name:
            writer = writer.option("queue" if kind == "queue" else "topic", name)
        _told(writer.save)
