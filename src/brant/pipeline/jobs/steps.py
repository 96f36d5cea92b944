"""The steps that a project adds: SQL over views, or a Python function from frames to a frame."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from brant.pipeline.errors import PipelineError, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LAYERED = re.compile(r"\b(bronze|silver|gold)\.(\w+)")


class Step:
    """What is done to the rows of a table, and how it is named when it fails."""

    def __init__(self, table: str, sql: str | None, python: str | None, folder: str) -> None:
        self._table = table
        self._sql = sql
        self._python = python
        self._folder = folder
        self._views: list[str] = []

    @property
    def exists(self) -> bool:
        return self._sql is not None or self._python is not None

    @property
    def _what(self) -> str:
        return "sql" if self._sql is not None else f"python {self._python}"

    def applied(self, views: Mapping[str, DataFrame]) -> DataFrame:
        """The frames are views for SQL, and arguments, in their order, for Python."""
        with self.named():
            if self._python is not None:
                return self._call(list(views.values()))
            return self._query(views)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors inside are those of the step: rows are computed when they are written, long after `applied`."""
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            if not self.exists:
                raise
            raise PipelineError(f"{self._table}: its {self._what} failed: {_told(error)}") from error

    def forget_views(self, spark: SparkSession) -> None:
        """Not before the rows are written: over Spark Connect, they are looked up only then."""
        while self._views:
            spark.catalog.dropTempView(self._views.pop())

    def _query(self, views: Mapping[str, DataFrame]) -> DataFrame:
        assert self._sql is not None  # noqa: S101, for the type checker
        for name, frame in views.items():
            for view in _names_of(name):
                frame.createOrReplaceTempView(view)
                self._views.append(view)
        spark = next(iter(views.values())).sparkSession
        names = set(views)
        # Spark takes what stands before a dot for a database, and temporary views have none.
        return spark.sql(_LAYERED.sub(lambda found: _view(found[0]) if found[0] in names else found[0], self._sql))

    def _call(self, frames: list[DataFrame]) -> DataFrame:
        from pyspark.sql import DataFrame

        result = self._function()(*frames)
        if not isinstance(result, DataFrame):
            raise PipelineError(
                f"{self._table}: {self._python} gave {type(result).__name__}: it must give a Spark DataFrame"
            )
        return result

    def _function(self) -> Any:
        from pyspark import cloudpickle

        assert self._python is not None  # noqa: S101, for the type checker
        module_name, _, name = self._python.partition(":")
        if self._folder not in sys.path:
            sys.path.insert(0, self._folder)
        try:
            module = importlib.import_module(module_name)
            function = getattr(module, name)
        except (ImportError, AttributeError) as error:
            raise PipelineError(
                f"{self._table}: there is no {self._python} below {self._folder} or in the installed packages: {error}"
            ) from None
        if (getattr(module, "__file__", None) or "").startswith(self._folder):
            # Spark's Python processes don't have the project's folder: what they run travels whole.
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        return function


def _names_of(name: str) -> tuple[str, ...]:
    """`silver.orders` is silver_orders and orders as well."""
    return (_view(name), name.partition(".")[2]) if "." in name else (name,)


def _view(name: str) -> str:
    return name.replace(".", "_")


def _told(error: Exception) -> str:
    from pyspark.errors import PySparkException

    told = sentence(error)
    return told if isinstance(error, PySparkException) else f"{type(error).__name__}: {told}"
