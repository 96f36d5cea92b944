"""The jobs of a project in their order: each once, up to what is there now, or all of them until they are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from brant.pipeline.archives import ARCHIVE, ARCHIVES
from brant.pipeline.lake import Lake
from brant.pipeline.project import Project, seconds
from brant.pipeline.runner import Query, Watcher, run_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 10
"""How often a query looks for news when it runs continuously and [schedule] does not say."""
_CHORES_EVERY_S = 60
_QUIET = Watcher()


def archive(
    spark: SparkSession,
    project: Project,
    *,
    prune: bool | None = None,
    watcher: Watcher = _QUIET,
    every_s: float | None = None,
) -> dict[str, int]:
    """Bring bronze up to date; with `prune`, delete from the databases what is in it for good, and tell how much."""
    lake = Lake.of(project, create=True)
    rejects = _Chore(lambda: _archive_rejects(spark, project, lake), every_s or 0)
    queries = _archive_queries(spark, project, lake, waiting=every_s is not None)
    run_until(queries, _between(watcher, [rejects] if every_s else []), lambda _: every_s)
    if watcher.stop_requested():
        return {}
    rejects.do()
    if not (project.archive.prune if prune is None else prune):
        return {}
    return pruned(project, lake)


def pruned(project: Project, lake: Lake) -> dict[str, int]:
    """What was deleted from each tenant's database."""
    from brant.pipeline.jobs.prune import prune

    return prune(project, lake)


def refine(
    spark: SparkSession,
    project: Project,
    *,
    only: Sequence[str] = (),
    watcher: Watcher = _QUIET,
    every_s: float | None = None,
) -> None:
    """Bring the silver tables, or `only` some of them, up to what is in bronze now."""
    from brant.pipeline.jobs.refine import queries

    found = queries(spark, project, Lake.of(project), only=tuple(only))
    run_until(found, watcher, lambda _: every_s)


def metrics(spark: SparkSession, project: Project, *, watcher: Watcher = _QUIET, every_s: float | None = None) -> None:
    """Bring the gold tables that Brant computes itself up to what is in bronze now."""
    from brant.pipeline.jobs.metrics import query

    webhooks = _Chore(lambda: _webhooks(spark, project), every_s or 0)
    chores = [webhooks] if every_s else []
    run_until([query(spark, project, Lake.of(project))], _between(watcher, chores), lambda _: every_s)
    if not watcher.stop_requested():
        webhooks.do()


def gold(spark: SparkSession, project: Project) -> None:
    """Compute the project's own gold tables anew, for the dates that have changed."""
    from brant.pipeline.jobs.gold import gold as compute

    if project.gold:
        compute(spark, project)


def run(spark: SparkSession, project: Project, *, watcher: Watcher = _QUIET) -> dict[str, int]:
    """archive, refine, metrics and gold, once, each up to what the one before it has written; tells what was pruned."""
    deleted = archive(spark, project, watcher=watcher)
    steps: tuple[Callable[[], None], ...] = (
        lambda: refine(spark, project, watcher=watcher),
        lambda: metrics(spark, project, watcher=watcher),
        lambda: gold(spark, project),
    )
    for step in steps:
        if watcher.stop_requested():
            break
        step()
    return deleted


def run_continuously(spark: SparkSession, project: Project, *, watcher: Watcher) -> None:
    """All of them beside each other until `watcher` says stop, each as often as [schedule] says."""
    # The first round in order: a silver table whose schema is to be inferred needs events to infer it from.
    run(spark, project, watcher=watcher)
    if watcher.stop_requested():
        return
    lake = Lake.of(project)
    run_until(
        _all_queries(spark, project, lake),
        _between(watcher, _chores(spark, project, lake)),
        lambda name: _interval(project, _job_of(name), EVERY_S),
    )


def _between(watcher: Watcher, chores: Sequence[_Chore]) -> Watcher:
    """The watcher, with chores to be done when they are due."""

    def meanwhile() -> None:
        watcher.meanwhile()
        for chore in chores:
            chore.do_if_due()

    return replace(watcher, meanwhile=meanwhile) if chores else watcher


def _chores(spark: SparkSession, project: Project, lake: Lake) -> list[_Chore]:
    """What is no streaming query."""
    chores = [
        _Chore(lambda: _archive_rejects(spark, project, lake), _interval(project, ARCHIVE, _CHORES_EVERY_S)),
        _Chore(lambda: _webhooks(spark, project), _interval(project, "metrics", _CHORES_EVERY_S)),
    ]
    if project.gold:
        chores.append(_Chore(lambda: gold(spark, project), _interval(project, "metrics", _CHORES_EVERY_S)))
    if project.archive.prune:
        chores.append(_Chore(lambda: pruned(project, lake), _CHORES_EVERY_S))
    if "compact" in project.schedule:
        chores.append(_Chore(lambda: _compact(project), _interval(project, "compact", _CHORES_EVERY_S)))
    return chores


def _all_queries(spark: SparkSession, project: Project, lake: Lake) -> list[Query]:
    from brant.pipeline.jobs import metrics, refine

    return [
        *_archive_queries(spark, project, lake, waiting=True),
        *refine.queries(spark, project, lake),
        metrics.query(spark, project, lake),
    ]


def _archive_queries(spark: SparkSession, project: Project, lake: Lake, *, waiting: bool) -> list[Query]:
    from brant.pipeline.jobs import archive, inbox

    return [archive.query(spark, project, lake), *inbox.queries(spark, project, lake, waiting=waiting)]


def _archive_rejects(spark: SparkSession, project: Project, lake: Lake) -> None:
    from brant.pipeline.jobs.inbox import archive_rejects

    archive_rejects(spark, project, lake)


def _webhooks(spark: SparkSession, project: Project) -> None:
    from brant.pipeline.jobs.webhooks import webhooks

    webhooks(spark, project)


def _job_of(query: str) -> str:
    if query in ARCHIVES:
        return ARCHIVE
    return query if query == "metrics" else "refine"


def _interval(project: Project, job: str, otherwise: float) -> float:
    return seconds(project.schedule[job]) if job in project.schedule else otherwise


def _compact(project: Project) -> None:
    from brant.pipeline.jobs.compact import compact

    compact(project)


@dataclass
class _Chore:
    """What is done now and then between looks at the queries."""

    do: Callable[[], object]
    every_s: float
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.every_s

    def do_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.do()
            self._due = time.monotonic() + self.every_s
