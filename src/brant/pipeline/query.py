"""SQL over the tables of the lake and the live tables of the databases, together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from brant.pipeline.lake import Lake
    from brant.pipeline.project import Project

LIVE = "live"

# Texts and comments come first, so that a name inside of them is never taken for a table.
_TOKENS = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | --[^\n]* | /\*.*?\*/
      | (?<![\w.`])(?P<layer>bronze|silver|quarantine|gold|live)(?P<dot>[._])(?P<name>\w+)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def sql(spark: SparkSession, project: Project, statement: str) -> DataFrame:
    """The answer to a query over the tables of `bronze`, `silver`, `quarantine` and `gold`, and those of `live`.

    Views can't be written to. Only the tables that the statement names are looked at.
    """
    lake = _lake(project)
    known = {**_lake_tables(lake), **_live_tables()}
    named = _named(statement)
    for name in sorted(named.dotted - known.keys()):
        raise PipelineError(f"there is no table {name}{_nearest(name, known)}")
    try:
        for name in sorted((named.dotted | named.underscored) & known.keys()):
            # Chosen columns instead of the table itself: Spark would let INSERT pass through to the files below.
            _frame(spark, project, lake, name).select("*").createOrReplaceTempView(_view(name))
        return spark.sql(_TOKENS.sub(_as_view, statement))
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(sentence_of(error)) from error


def _lake(project: Project) -> Lake | None:
    """None before the first archive: the live tables can be asked all the same."""
    from brant.pipeline.lake import Lake, LakeFiles

    return Lake.of(project) if LakeFiles(project.lake).exists("_brant/lake.json") else None


def _lake_tables(lake: Lake | None) -> dict[str, str]:
    tables = lake.tables() if lake is not None else []
    return {table.name.replace("/", "."): table.name for table in tables}


def _live_tables() -> dict[str, str]:
    from brant.pipeline.tables import TABLES

    return {f"{LIVE}.{name}": name for name in TABLES}


@dataclass(frozen=True)
class _Named:
    """The tables that a statement names, as layer.name. `gold_price` may be a column, `gold.price` must be a table."""

    dotted: set[str]
    underscored: set[str]


def _named(statement: str) -> _Named:
    named = _Named(set(), set())
    for match in _TOKENS.finditer(statement):
        if match["layer"]:
            names = named.dotted if match["dot"] == "." else named.underscored
            names.add(f"{match['layer']}.{match['name']}".lower())
    return named


def _as_view(match: re.Match[str]) -> str:
    if match["dot"] != ".":
        return match[0]
    return _view(f"{match['layer']}.{match['name']}".lower())


def _view(name: str) -> str:
    return name.replace(".", "_")


def _frame(spark: SparkSession, project: Project, lake: Lake | None, name: str) -> DataFrame:
    layer, _, table = name.partition(".")
    if layer == LIVE:
        return spark.read.format("brant").option("path", project.database).option("table", table).load()
    assert lake is not None  # noqa: S101, its tables are known
    return lake_frame(spark, lake, name)


def lake_frame(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """A table of the lake by layer.name, without the column `batch`, which is for the lake alone."""
    from brant.pipeline.archives import BY_TARGET

    path = name.replace(".", "/")
    table = lake.table(path)
    if path in BY_TARGET:
        folder, columns = BY_TARGET[path].folder, BY_TARGET[path].columns
        return _whole_names(spark.read.schema(f"{columns}, long_{folder} string").parquet(table.url), folder)
    # Columns that were added later are NULL in what is older.
    return spark.read.option("mergeSchema", "true").parquet(table.url).drop("batch")


def _whole_names(rows: DataFrame, column: str) -> DataFrame:
    """A name that is too long for that of a folder is cut there, and stands in a column of its own."""
    return rows.selectExpr(f"* EXCEPT ({column}, long_{column})", f"coalesce(long_{column}, {column}) AS {column}")


def _nearest(name: str, known: dict[str, str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"
