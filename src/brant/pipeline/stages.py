"""The jobs of a project in their order: each once, up to what is there now, or all of them until they are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from brant.pipeline.lake import Lake
from brant.pipeline.project import Project, seconds
from brant.pipeline.runner import ARCHIVE, Query, Watcher, run_until

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
    from brant.pipeline.jobs.archive import query

    lake = Lake.of(project, create=True)
    run_until([query(spark, project, lake)], watcher, lambda _: every_s)
    if watcher.stop_requested() or not (project.archive.prune if prune is None else prune):
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

    run_until([query(spark, project, Lake.of(project))], watcher, lambda _: every_s)


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
    chores = _chores(spark, project, lake)

    def meanwhile() -> None:
        watcher.meanwhile()
        for chore in chores:
            chore.do_if_due()

    run_until(
        _all_queries(spark, project, lake),
        replace(watcher, meanwhile=meanwhile),
        lambda name: _interval(project, _job_of(name), EVERY_S),
    )


def _chores(spark: SparkSession, project: Project, lake: Lake) -> list[_Chore]:
    """What is no streaming query."""
    chores = []
    if project.gold:
        chores.append(_Chore(lambda: gold(spark, project), _interval(project, "metrics", _CHORES_EVERY_S)))
    if project.archive.prune:
        chores.append(_Chore(lambda: pruned(project, lake), _CHORES_EVERY_S))
    if "compact" in project.schedule:
        chores.append(_Chore(lambda: _compact(project), _interval(project, "compact", _CHORES_EVERY_S)))
    return chores


def _all_queries(spark: SparkSession, project: Project, lake: Lake) -> list[Query]:
    from brant.pipeline.jobs import archive, metrics, refine

    return [
        archive.query(spark, project, lake),
        *refine.queries(spark, project, lake),
        metrics.query(spark, project, lake),
    ]


def _job_of(query: str) -> str:
    return query if query in (ARCHIVE, "metrics") else "refine"


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
