"""A query that fails or is stopped hangs up on the process that plans it, which is Spark's."""

from __future__ import annotations

import sys
from types import TracebackType

_PLANNING = "pyspark.sql.streaming.python_streaming_source_runner"


def hang_up_quietly() -> None:
    """In that process, make nothing of the lost connection.

    Why the query ended is told by its error. What this process would print of it, on the terminal of whoever started
    the query, depends on which side closes the connection first.
    """
    if getattr(sys.modules["__main__"].__spec__, "name", None) == _PLANNING:
        sys.excepthook = _tell_unless_hung_up


def _tell_unless_hung_up(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if not issubclass(kind, ConnectionError):
        sys.__excepthook__(kind, error, where)
