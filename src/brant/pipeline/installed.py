"""What of Spark is on this machine, for `brant doctor`; starts no Spark."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from brant.pipeline.errors import PipelineError, missing_extra
from brant.pipeline.java import find_java

PARTS = ("pyarrow", "adbc_driver_manager", "adbc_driver_sqlite")


def spark_facts() -> tuple[dict[str, str], list[str]]:
    """Facts, and warnings: the database is well without Spark."""
    try:
        facts = {"spark": version("pyspark")}
    except PackageNotFoundError:
        facts = {"spark": "installed, version unknown"}
    warnings = [str(missing_extra(part)) for part in PARTS if find_spec(part) is None]
    try:
        facts["java"] = str(find_java())
    except PipelineError as error:
        facts["java"] = "none that Spark can use"
        warnings.append(str(error))
    return facts, warnings
