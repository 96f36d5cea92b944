"""Which Python runs Spark's workers: this one, with Spark's modules as they are installed."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys

from brant.pipeline.cache import kept_script

WORKER_PYTHON = "spark.pyspark.python"

# Spark puts a zip of itself before everything else. A zip holds no compiled modules: each of the many Pythons that
# Spark starts would compile them anew, a third of a second each time.
WRAPPER = """\
#!/bin/sh
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
  case $entry in
    */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
    *) kept=${{kept:+$kept:}}$entry ;;
  esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python(asked: str | None, *, is_here: bool) -> dict[str, str]:
    """Environment variables that tell Spark; what the user has asked for goes first.

    On a cluster the path of this Python must be that of one with Brant on every machine: Spark's own choice, `python3`,
    is another one even here when this one is in a virtual environment.
    """
    if asked is not None:
        return {"PYSPARK_PYTHON": asked}
    if "PYSPARK_PYTHON" in os.environ:
        return {}
    wrapped = is_here and os.name == "posix" and _spark_is_the_installed_one()
    python = _wrapper() if wrapped else sys.executable
    return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


def _wrapper() -> str:
    text = WRAPPER.format(python=shlex.quote(sys.executable))
    return kept_script(f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}", text)


def _spark_is_the_installed_one() -> bool:
    """Else the modules must be those of that Spark, from its zip."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return home is None or os.path.realpath(home) == os.path.realpath(os.path.dirname(pyspark.__file__))
