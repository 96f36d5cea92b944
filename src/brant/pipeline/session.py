"""A Spark session that is set up for Brant: `brant.pipeline.session()`."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from brant.pipeline.addresses import require_connect_server, require_master
from brant.pipeline.classes import archive_options, make_archive_at_exit
from brant.pipeline.defaults import JAVA_OPTIONS, MASTER, PUSH_DOWN, SESSION, is_local, process_defaults
from brant.pipeline.errors import PipelineError, SparkMissing, missing_extra, require_spark, sentence
from brant.pipeline.java import find_java, java_home
from brant.pipeline.python import WORKER_PYTHON, worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = os.path.join(os.path.dirname(__file__), "log4j2.properties")
# A batch that is stopped has a long error, which Spark searches with a regular expression that takes a few frames for
# each of its characters. Only what a thread uses of its stack takes memory.
_DEEP_STACK = "-Xss32m"
_starting = threading.Lock()
_given: SparkSession | None = None


def session(
    app: str = "brant",
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """A Spark session with the format `brant`: of a Spark started here (`master`), or of the server at `remote`.

    A Spark that runs in this process already is used, in a session of its own settings; if it contradicts what is
    asked, that is an error. `stop()` on the session stops that Spark too.
    """
    global _given
    require_spark()
    wanted = {name: _text(value) for name, value in (config or {}).items()}
    if wanted.get(PUSH_DOWN) == "true":
        raise PipelineError(
            f"{PUSH_DOWN} must stay off: Spark returns wrong rows with it when a DataFrame is used twice"
        )
    if remote is not None and master is not None:
        raise PipelineError(f"give master or remote, not both: master={master!r}, remote={remote!r}")
    with _starting:
        if remote is not None:
            made = _connect(app, remote, wanted)
        else:
            made = _running(master, wanted) or start(app, master or MASTER, wanted)
            _given = made
        _register(made)
    return made


def start(app: str, master: str, wanted: Mapping[str, str], java_options: list[str] | None = None) -> SparkSession:
    """Starts Spark's JVM. `java_options` take the place of those that make the start faster."""
    from pyspark.sql import SparkSession

    require_master(master)
    java = find_java()
    own = wanted.get(JAVA_OPTIONS, "")
    options = [f"-Dlog4j2.configurationFile={_LOG}", *([] if "-Xss" in own else [_DEEP_STACK])]
    if java_options is not None:
        options += java_options
    elif "-XX:SharedArchiveFile" not in own and "-Xshare" not in own:
        options += archive_options(java)
        make_archive_at_exit(java)
    settings: dict[str, Any] = {**process_defaults(master), **wanted, "spark.app.name": app, "spark.master": master}
    settings[JAVA_OPTIONS] = " ".join([*(f'"{option}"' for option in options), own]).strip()
    environment = {"JAVA_HOME": java_home(java), "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    environment |= worker_python(wanted.get(WORKER_PYTHON), is_here=is_local(master))
    with _environment(environment), _no_pandas_warning():
        try:
            made = SparkSession.builder.config(map=settings).getOrCreate()
        except Exception as error:
            raise PipelineError(f"Spark did not start with master {master!r}: {sentence(error)}") from error
    _quiet_errors()
    return made


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Only while Spark starts, which passes them on: the program's other children get what they always got."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _no_pandas_warning() -> Iterator[None]:
    """Spark looks for pandas when it starts, and warns of one that nothing here uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def _quiet_errors() -> None:
    """Each error is raised; PySpark also prints it, as JSON with a Java stack trace."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _running(master: str | None, wanted: Mapping[str, str]) -> SparkSession | None:
    """A session of the Spark that this process runs already, if it does."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return None
    if master is not None and master != context.master:
        raise PipelineError(
            f"Spark runs in this process with master {context.master!r}, not {master!r}; stop it first, or ask for no "
            "master"
        )
    if _given is not None and _given.sparkContext is context:
        _apply(_given, wanted)
        return _given
    # Beside the program's own session, not in it: its time zone and the like are not ours to change.
    beside = SparkSession.builder.getOrCreate().newSession()
    _apply(beside, {**SESSION, **wanted})
    return beside


def _apply(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if spark.conf.get(name, None) == value:
            continue
        if not spark.conf.isModifiable(name):
            raise PipelineError(f"{name} can only be set before Spark starts, and it runs already; stop it first")
        spark.conf.set(name, value)


def _connect(app: str, remote: str, wanted: Mapping[str, str]) -> SparkSession:

    require_connect_server(remote)
    from pyspark.sql import SparkSession

    with _no_pandas_warning():
        try:
            made = SparkSession.builder.remote(remote).appName(app).getOrCreate()
            _apply(made, {**SESSION, **wanted})
        except ImportError as missing:
            raise SparkMissing(f"Spark Connect needs more: pip install 'pyspark[connect]' ({missing})") from missing
        except PipelineError:
            raise
        except Exception as error:
            raise PipelineError(f"no session at {remote}: {sentence(error)}") from error
    _quiet_errors()
    return made


def _register(spark: SparkSession) -> None:
    """By hand as well: one broken `pyspark_*` package beside ours hides all formats from Spark's own search."""
    try:
        from brant.pipeline.source import BrantDataSource
    except ImportError as missing:
        raise missing_extra(missing.name or str(missing)) from missing
    with _environment_that_may_change(spark):
        spark.dataSource.register(BrantDataSource)


@contextmanager
def _environment_that_may_change(spark: SparkSession) -> Iterator[None]:
    """What is registered meanwhile takes the environment of its Python processes along in a map that bears changes.

    All queries on a format share that map. One that starts adds to it while another one may be sending it to its tasks,
    which then fail: they can't read the plain HashMap that Spark makes of a dict.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        yield
        return
    context: Any = spark.sparkContext
    given = context.environment
    context.environment = context._jvm.java.util.concurrent.ConcurrentHashMap(given)
    try:
        yield
    finally:
        context.environment = given
