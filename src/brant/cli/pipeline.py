"""pipeline: streams and jobs as tables, on Spark. Only the arguments are here; what runs is imported when it does."""

from __future__ import annotations

from importlib import import_module

from brant.cli.command import Command
from brant.cli.numbers import count, positive_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context

_PROJECT = "brant-pipeline.toml"


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (_, summary, description, add) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=description or summary)
        add(action)
        action.add_argument("--project", metavar="FILE", default=_PROJECT, help=f"the project's file ({_PROJECT})")
        action.add_argument("--debug", action="store_true", help="show where an error comes from, and Spark's log")


def _pipeline(context: Context, options: Namespace) -> int:
    module = import_module(f"brant.cli.{_ACTIONS[options.action][0]}")
    code: int = module.ACTIONS[options.action](context, options)
    return code


def _init(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace the file that is there")


def _on_spark(parser: ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--master", metavar="URL", help="the Spark to run on: local[2], spark://host:7077, yarn, k8s://..."
    )
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server, as sc://host:15002")


def _looping(parser: ArgumentParser) -> None:
    _on_spark(parser)
    parser.add_argument("--continuous", action="store_true", help="go on until interrupted")


def _run(parser: ArgumentParser) -> None:
    _looping(parser)


def _one_job(parser: ArgumentParser) -> None:
    _looping(parser)
    parser.add_argument(
        "--every", metavar="S", type=positive_duration, help="with --continuous: look for news so often"
    )


def _archive(parser: ArgumentParser) -> None:
    _one_job(parser)
    parser.add_argument(
        "--prune", action="store_true", help="then delete what is in the lake and every named consumer has passed"
    )


def _refine(parser: ArgumentParser) -> None:
    _one_job(parser)
    parser.add_argument("table", metavar="TABLE", nargs="*", help="only these silver tables")


def _replay(parser: ArgumentParser) -> None:
    _on_spark(parser)
    parser.add_argument("topic", metavar="TOPIC", nargs="*", help="the topics to take events of (default: all)")
    parser.add_argument("--to", metavar="T", required=True, help="stream:NAME, queue:NAME, or stream: their own topics")
    parser.add_argument("--to-database", metavar="FILE", help="the database to write to (default: the project's)")
    parser.add_argument("--where", metavar="SQL", help="only events for which this holds, as in \"key = '42'\"")
    parser.add_argument("--since", metavar="T", help="only events from then on: 2026-01-31, or with a time, in UTC")
    parser.add_argument("--until", metavar="T", help="only events before that")
    parser.add_argument("--tenant", metavar="NAME", help="only events of this tenant")
    parser.add_argument("--rate", metavar="N", type=count, help="at most so many events a second")
    parser.add_argument("--id", metavar="NAME", help="a name for this replay: run again with it, it goes on")
    parser.add_argument("--dry-run", action="store_true", help="only count them, and show a few")
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _compact(parser: ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", nargs="*", help="only these tables, as in bronze/events")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _status(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _sql(parser: ArgumentParser) -> None:
    _on_spark(parser)
    parser.add_argument("statement", metavar="SQL", help="the query; - reads it from stdin")
    parser.add_argument("--limit", metavar="N", type=count, help="print at most so many rows")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line")
    form.add_argument("--csv", action="store_true", help="CSV with a header")


def _report(parser: ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", default="brant-report.html", help="the page (brant-report.html)")
    parser.add_argument("--days", metavar="N", type=count, default=7, help="how many days it shows (7)")


_RUN = """Bring all tables up to date: archive, refine, metrics, then the project's own gold tables. Ends when all \
that was there is taken, for cron; with --continuous it goes on, as often as [schedule] says."""
_REPLAY = """Publish events of the lake again, once each: a replay that was cut off goes on where it stopped when it \
is run again with the same --id."""
_SQL = """Run a query over bronze.*, silver.*, quarantine.*, gold.* and the live tables live.stream, live.queue, \
live.dead, live.jobs, live.results, live.notifications, live.consumers, live.deliveries, live.events, live.attempts, \
live.rejects."""

_JOBS, _VIEWS = "pipeline_jobs", "pipeline_views"
_ACTIONS = {
    "init": (_JOBS, "write a project file for the database", "", _init),
    "run": (
        _JOBS,
        "archive, refine, metrics and the project's own tables",
        _RUN,
        _run,
    ),
    "archive": (_JOBS, "bronze: every event and webhook into the lake, once", "", _archive),
    "refine": (_JOBS, "silver: typed tables, one a topic", "", _refine),
    "metrics": (_JOBS, "gold: rates, waits and failures per time window", "", _one_job),
    "replay": (
        _JOBS,
        "events from the lake back into a stream or a queue",
        _REPLAY,
        _replay,
    ),
    "compact": (_JOBS, "small files of closed days into large ones", "", _compact),
    "status": (
        _VIEWS,
        "offsets, lag, last batch and last error of each query",
        "Show how far each query is, what it set apart, and what went wrong last. Starts no Spark.",
        _status,
    ),
    "sql": (
        _VIEWS,
        "ask the lake and the live tables",
        _SQL,
        _sql,
    ),
    "report": (_VIEWS, "one HTML page with charts", "Write one HTML page with charts. Starts no Spark.", _report),
}

COMMANDS = {
    "pipeline": Command(
        "streams and jobs as tables, on Spark",
        _arguments,
        _pipeline,
        description="Streams and jobs as tables that people query, on Spark: bronze, silver and gold in a lake of "
        "Parquet files beside the database. Needs pip install 'brant[spark]'.",
    )
}
