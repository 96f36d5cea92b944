"""What can go wrong with the pipeline, each as one sentence that says what to do."""

from __future__ import annotations

from importlib.util import find_spec

from brant.errors import BrantError

INSTALL = "pip install 'brant[spark]'"


class PipelineError(BrantError):
    """The pipeline cannot be set up or cannot go on; nothing was lost."""


class SparkMissing(PipelineError, ImportError):
    """Spark, or a part that it needs, is not installed."""


def missing_extra(part: str) -> SparkMissing:
    return SparkMissing(f"{part} is not installed; the pipeline needs it: {INSTALL}")


def require_spark() -> None:
    for part in ("pyspark", "pyarrow"):
        if find_spec(part) is None:
            raise missing_extra(part)


def sentence(error: BaseException) -> str:
    """What an error of Spark says, without its Java stack trace."""
    text = str(error)
    java = getattr(error, "java_exception", None)
    if java is not None:
        text = str(java.getMessage() or java)
    lines = text.strip().splitlines()
    return lines[0] if lines else type(error).__name__
