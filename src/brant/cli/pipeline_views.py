"""pipeline status, sql, report."""

from __future__ import annotations

import sys

from brant.cli.command import DONE
from brant.cli.output import put, put_json
from brant.cli.pipeline_project import loaded, spark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from brant.cli.command import Context
    from brant.pipeline.status import QueryStatus

_HEADERS = ("QUERY", "BATCH", "WHEN", "ROWS", "BEHIND", "SET APART", "OFFSETS", "LAST ERROR")
_MOST_OFFSETS = 3


def _status(context: Context, options: Namespace) -> int:
    project = loaded(context, options)
    from brant.pipeline import status

    found = status(project)
    if options.json:
        for query in found.queries:
            put_json(vars(query))
        return DONE
    from brant.cli.terminal import table

    table([_row(query) for query in found.queries], _HEADERS)
    return DONE


def _row(query: QueryStatus) -> tuple[str, ...]:
    from brant.cli.terminal import when

    counts = " ".join(f"{name}={number}" for name, number in query.counts.items() if number)
    error = f"{when(query.error_at)}: {query.error}" if query.error and query.error_at else query.error or ""
    return (
        query.query,
        f"{'never run' if query.batch is None else query.batch}{' running' if query.is_running else ''}",
        when(query.batch_at) if query.batch_at else "",
        "" if query.rows is None else str(query.rows),
        _behind(query),
        counts,
        _offsets(query.offsets),
        error,
    )


def _behind(query: QueryStatus) -> str:
    if query.lag is not None:
        return str(query.lag)
    return "" if query.query.startswith("gold-") else "?"


def _offsets(offsets: dict[str, int]) -> str:
    """A few; --json has them all."""
    shown = [f"{name}={offset}" for name, offset in list(offsets.items())[:_MOST_OFFSETS]]
    return " ".join(shown) + (f" and {len(offsets) - _MOST_OFFSETS} more" if len(offsets) > _MOST_OFFSETS else "")


def _sql(context: Context, options: Namespace) -> int:
    project = loaded(context, options)
    statement = sys.stdin.read() if options.statement == "-" else options.statement
    from brant.cli.pipeline_rows import print_rows
    from brant.pipeline import PipelineError, sql

    form = "json" if options.json else "csv" if options.csv else "table"
    with spark_of(project, options, interrupts=True) as (spark, signals):
        try:
            frame = sql(spark, project, statement.strip().rstrip(";"))
            print_rows(frame if options.limit is None else frame.limit(options.limit), form, signals.requested)
        except PipelineError:
            if not signals.requested():  # what was cancelled is no error
                raise
    return signals.exit_code


def _report(context: Context, options: Namespace) -> int:
    project = loaded(context, options)
    from brant.pipeline import report

    path = report(project, options.out, days=options.days)
    context.tell("Open it in a browser:")
    put(path)
    return DONE


ACTIONS = {"status": _status, "sql": _sql, "report": _report}
