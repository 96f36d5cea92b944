"""Spark over Brant: the format `brant`, a lake beside the database, and the jobs between them.

Importing this loads nothing of Spark. Using it without the extra says how to install it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from brant.pipeline.errors import PipelineError, missing_extra

# Not lazy: these modules have the names of their functions, and the first import of one would hide the function.
from brant.pipeline.report import report
from brant.pipeline.session import session
from brant.pipeline.status import status

if TYPE_CHECKING:
    from brant.pipeline.jobs.compact import compact
    from brant.pipeline.jobs.replay import replay
    from brant.pipeline.project import load as load_project
    from brant.pipeline.query import sql
    from brant.pipeline.stages import archive, gold, metrics, refine, run

_HOMES = {
    "load_project": ("project", "load"),
    "archive": ("stages", "archive"),
    "refine": ("stages", "refine"),
    "metrics": ("stages", "metrics"),
    "gold": ("stages", "gold"),
    "run": ("stages", "run"),
    "replay": ("jobs.replay", "replay"),
    "compact": ("jobs.compact", "compact"),
    "sql": ("query", "sql"),
}

__all__ = [
    "PipelineError",
    "session",
    "load_project",
    "archive",
    "refine",
    "metrics",
    "gold",
    "run",
    "replay",
    "compact",
    "status",
    "sql",
    "report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _HOMES[name]
    try:
        return getattr(import_module(f"{__name__}.{module}"), own_name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.partition(".")[0] in ("pyspark", "pyarrow"):
            raise missing_extra(missing.name.partition(".")[0]) from None
        raise
