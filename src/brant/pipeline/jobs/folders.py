"""Values of a column as names of folders, whatever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A folder's name has at most 255 bytes, and Spark writes each of these characters as three.
_LONGEST_FOLDER = 240
_SPELLED_OUT = r"[\"#%'*/:=?\\{\[\]^]"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def in_folders(rows: DataFrame, column: str, moment: str) -> DataFrame:
    """With the columns of the folders last: `column`, and the date of `moment`.

    A value that is too long for a folder is cut there, and whole in `long_<column>`.
    """
    value = F.col(column)
    spelled = F.octet_length(F.regexp_replace(value, _SPELLED_OUT, "%00"))
    is_unfit = (spelled > _LONGEST_FOLDER) | (value == _NO_VALUE)
    short = F.concat(F.substring(value, 1, 30), F.lit("~"), F.substring(F.sha2(value, 256), 1, 16))
    others = [name for name in rows.columns if name != column]
    return rows.select(
        *others,
        F.when(is_unfit, value).alias(f"long_{column}"),
        F.when(is_unfit, short).otherwise(value).alias(column),
        F.to_date(moment).alias("date"),
    )
