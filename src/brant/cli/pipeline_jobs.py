"""pipeline init, run, archive, refine, metrics, replay, compact."""

from __future__ import annotations

import os

from brant.cli.command import DONE, NOTHING
from brant.cli.output import put, put_json
from brant.cli.pipeline_project import loaded, project_path, show_debug, spark_of
from brant.errors import InvalidValue, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from brant.cli.command import Context
    from brant.pipeline.jobs.replay import ReplayResult
    from brant.pipeline.project import Project
    from brant.pipeline.runner import Watcher

    Job = Callable[[SparkSession, Project, Watcher], object]


def _init(context: Context, options: Namespace) -> int:
    show_debug(options)
    target = context.target()
    path = project_path(context, options)
    if not target.exists():
        raise StorageError(f"there is no database at {target}: name one with -f, or make one with 'brant init'")
    if os.path.exists(path) and not options.force:
        raise InvalidValue(f"{path} is there already; --force replaces it")
    from brant.pipeline.template import database_from, project_text, topics_of

    topics = topics_of(target.path)
    text = project_text(database_from(os.path.dirname(os.path.abspath(path)), target.path), topics)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    context.tell(f"Wrote {path}: {len(topics)} silver tables. Next: brant pipeline run")
    return DONE


def _run(context: Context, options: Namespace) -> int:
    from brant.pipeline import stages

    def once(spark: SparkSession, project: Project, watcher: Watcher) -> None:
        _tell_of_pruned(context, stages.run(spark, project, watcher=watcher))

    def continuously(spark: SparkSession, project: Project, watcher: Watcher) -> None:
        stages.run_continuously(spark, project, watcher=watcher)

    return _with_spark(context, options, continuously if options.continuous else once)


def _archive(context: Context, options: Namespace) -> int:
    from brant.pipeline import stages

    def job(spark: SparkSession, project: Project, watcher: Watcher) -> None:
        prune = True if options.prune else None
        deleted = stages.archive(spark, project, prune=prune, watcher=watcher, every_s=_every(options, project))
        _tell_of_pruned(context, deleted)

    return _with_spark(context, options, job)


def _refine(context: Context, options: Namespace) -> int:
    from brant.pipeline import stages

    def job(spark: SparkSession, project: Project, watcher: Watcher) -> None:
        stages.refine(spark, project, only=options.table, watcher=watcher, every_s=_every(options, project))

    return _with_spark(context, options, job)


def _metrics(context: Context, options: Namespace) -> int:
    from brant.pipeline import stages

    def job(spark: SparkSession, project: Project, watcher: Watcher) -> None:
        stages.metrics(spark, project, watcher=watcher, every_s=_every(options, project))

    return _with_spark(context, options, job)


def _every(options: Namespace, project: Project) -> float | None:
    """The interval of a continuous job; None for once."""
    from brant.pipeline.project import seconds
    from brant.pipeline.stages import EVERY_S

    if not options.continuous:
        return None
    scheduled = project.schedule.get(options.action)
    return options.every or (seconds(scheduled) if scheduled else EVERY_S)


def _with_spark(context: Context, options: Namespace, job: Job) -> int:
    if getattr(options, "every", None) is not None and not options.continuous:
        raise InvalidValue("--every belongs to --continuous: give both")
    project = loaded(context, options)
    from brant.cli.pipeline_progress import ProgressLines
    from brant.pipeline.runner import Watcher

    with spark_of(project, options) as (spark, signals):
        job(spark, project, Watcher(ProgressLines(quiet=context.quiet), signals.requested))
    if options.continuous:
        context.tell("brant pipeline: stopped")
        return DONE
    return signals.exit_code


def _tell_of_pruned(context: Context, deleted: dict[str, int]) -> None:
    if deleted:
        context.tell(f"Pruned {sum(deleted.values()):,} events that are in the lake")


def _replay(context: Context, options: Namespace) -> int:
    project = loaded(context, options)
    from brant.pipeline import replay

    def progress(done: ReplayResult) -> None:
        context.tell(f"replay {done.id}: {done.written + done.written_before:,} of {done.events:,} events")

    with spark_of(project, options) as (spark, signals):
        done = replay(
            spark,
            project,
            options.topic,
            to=options.to,
            database=options.to_database,
            where=options.where,
            since=options.since,
            until=options.until,
            tenant=options.tenant,
            rate=options.rate,
            id=options.id,
            dry_run=options.dry_run,
            on_progress=progress,
            stop_requested=signals.requested,
        )
    _tell_of_replay(context, options, done)
    return signals.exit_code or (DONE if done.events else NOTHING)


def _tell_of_replay(context: Context, options: Namespace, done: ReplayResult) -> None:
    if options.json:
        sample = [{name: _plain(value) for name, value in event.items()} for event in done.sample]
        put_json({**vars(done), "sample": sample, "is_finished": done.is_finished})
    elif options.dry_run:
        for topic, number in sorted(done.by_topic.items()):
            put(f"{topic}\t{number}")
        for event in done.sample:
            context.tell(f"{event['topic']} {event['offset']}: {event['payload']}")
    elif not done.is_finished:
        context.tell(f"Stopped; go on with --id {done.id}")


def _plain(value: object) -> object:
    return value if isinstance(value, (int, str, type(None))) else str(value)


def _compact(context: Context, options: Namespace) -> int:
    project = loaded(context, options)
    from brant.pipeline import compact

    done = compact(project, options.table)
    for table in done:
        if options.json:
            put_json(vars(table))
        elif table.folders:
            put(f"{table.table}: {table.files_before} files are now {table.files_after}")
        for reason in table.skipped:
            context.tell(f"left as it is: {reason}")
        if table.held_by:
            context.tell(f"{table.table}: newer batches wait for {table.held_by}")
    return DONE if any(table.folders for table in done) else NOTHING


ACTIONS = {
    "init": _init,
    "run": _run,
    "archive": _archive,
    "refine": _refine,
    "metrics": _metrics,
    "replay": _replay,
    "compact": _compact,
}
