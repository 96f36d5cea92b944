"""Where Spark looks for the format `brant`: a `pyspark_*` package that has a `DefaultSource`.

Spark imports every package of that name whenever it looks for a format. So this one imports nothing until it is
asked, and a missing part hides this format only, never those of its neighbours.
"""

from __future__ import annotations

__all__ = ["DefaultSource"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.pipeline.source import BrantDataSource as DefaultSource


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from brant.pipeline.source import BrantDataSource
        except ImportError as missing:
            raise AttributeError(f"the format 'brant' cannot be loaded: {missing}") from missing
        return BrantDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
