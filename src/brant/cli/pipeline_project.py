"""What the commands of `brant pipeline` share: the project, the Spark that it asks for, how they are stopped."""

from __future__ import annotations

import os
from contextlib import contextmanager

from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from brant.cli.command import Context
    from brant.cli.stopping import StopSignals
    from brant.pipeline.project import Project

# How long what is cancelled may take to end.
_CANCEL_S = 3.0


def project_path(context: Context, options: Namespace) -> str:
    """The project's file, in the directory that -d names."""
    return os.path.join(context.directory or "", options.project)


def loaded(context: Context, options: Namespace) -> Project:
    if context.file is not None:
        raise InvalidValue(f"the database is the one that {options.project} names: leave -f out")
    show_debug(options)
    from brant.pipeline import load_project

    return load_project(project_path(context, options))


def show_debug(options: Namespace) -> None:
    if options.debug:
        os.environ["BRANT_DEBUG"] = "1"


@contextmanager
def spark_of(
    project: Project, options: Namespace, *, interrupts: bool = False
) -> Iterator[tuple[SparkSession, StopSignals]]:
    """The Spark that the options ask for, else the project; and the signals, which from now on are only noted.

    With `interrupts` they also cancel what Spark is at.
    """
    from brant.cli.stopping import StopSignals
    from brant.pipeline import session

    chosen = options.master is not None or options.remote is not None
    spark = session(
        "brant pipeline",
        master=options.master if chosen else project.master,
        remote=options.remote if chosen else project.remote,
        config={**project.spark, **({"spark.log.level": "WARN"} if options.debug else {})},
    )
    # After Spark's own handlers, which would raise in the middle of a call to Java.
    signals = StopSignals(lambda: _cancel(spark, signals) if interrupts else None)
    try:
        yield spark, signals
    finally:
        spark.stop()


def _cancel(spark: SparkSession, signals: StopSignals) -> None:
    """In a thread: the one that the signal has interrupted is in the middle of a talk with Java."""
    from threading import Thread

    Thread(target=_cancel_or_leave, args=(spark, signals), daemon=True).start()


def _cancel_or_leave(spark: SparkSession, signals: StopSignals) -> None:
    """Some of what Java is at heeds nothing: then leave it. Whoever only reads leaves nothing half done."""
    import time

    _cancel_all(spark)
    time.sleep(_CANCEL_S)
    os._exit(signals.exit_code)


def _cancel_all(spark: SparkSession) -> None:
    from pyspark.errors import PySparkAttributeError

    try:
        context = spark.sparkContext
    except PySparkAttributeError:  # Spark Connect, which knows which jobs are ours
        spark.interruptAll()
    else:
        context.cancelAllJobs()  # rows are fetched in a thread of Java's that interruptAll knows nothing of
