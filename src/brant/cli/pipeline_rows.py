"""The rows of a DataFrame on stdout: a table, CSV or JSON lines. Spark makes the texts, so that all types come out."""

from __future__ import annotations

from brant.cli.output import put
from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def print_rows(frame: DataFrame, form: str, stop_requested: Callable[[], bool]) -> None:
    """All rows, in `form`; they come partition by partition, so that there may be many."""
    if form == "json":
        for (line,) in _rows(_as_json(frame), stop_requested):
            put(line or "{}")
        return
    rows = _rows(_as_texts(frame), stop_requested)
    if form == "csv":
        _print_csv(frame.columns, rows)
        return
    from brant.cli.terminal import table

    table([[cell or "" for cell in row] for row in rows], frame.columns)


def _rows(frame: DataFrame, stop_requested: Callable[[], bool]) -> Iterator[tuple[str | None, ...]]:
    try:
        for row in frame.toLocalIterator():
            if stop_requested():
                return
            yield tuple(row)
    except Exception as error:
        raise PipelineError(sentence_of(error)) from error


def _as_json(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    columns = frame.toDF(*_distinct(frame.columns))
    options = {"ignoreNullFields": "false", "timestampFormat": _TIME}
    return columns.select(functions.to_json(functions.struct("*"), options))


def _as_texts(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    columns = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    return columns.select([_text(functions.col(field.name), field.dataType) for field in columns.schema])


def _text(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, TimestampType, VariantType

    if isinstance(kind, TimestampType):
        return functions.date_format(column, _TIME)
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        return functions.to_json(column)
    if isinstance(kind, BinaryType):
        return functions.base64(column)
    return column.cast("string")


def _distinct(names: list[str]) -> list[str]:
    """JSON objects can't have a name twice: the second gets a number."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct


def _print_csv(names: list[str], rows: Iterator[tuple[str | None, ...]]) -> None:
    import csv
    import io
    from itertools import chain

    for row in chain([names], rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        put(line.getvalue())
