"""What can go wrong with the pipeline, each as one sentence that says what to do."""

from __future__ import annotations

import re
from importlib.util import find_spec

from brant.errors import BrantError

INSTALL = "pip install 'brant[spark]'"
_IN_ADDRESS = re.compile(r"(\bpostgres(?:ql)?://[^\s:/@?]*):\S*@")
_IN_SETTING = re.compile(r"(\b(?:ssl)?password)=(?:'(?:[^'\\]|\\.)*'|[^\s&'\"]+)")


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


def without_secrets(text: str) -> str:
    """A text that Spark or a driver made, without the passwords of addresses that it may repeat."""
    return _IN_SETTING.sub(r"\1=...", _IN_ADDRESS.sub(r"\1@", text))
