"""What went wrong, as one sentence: out of the many lines that Spark, Java and Python say about it."""

from __future__ import annotations

import re

from brant.pipeline.errors import without_secrets

UNKNOWN = "it failed, and Spark does not say why"

_BRANT = re.compile(r"(?:^|\s)brant(?:\.\w+)*\.[A-Z]\w*: (?P<text>.+)")
_FULL_DISK = ("No space left on device", "Disk quota exceeded", "database or disk is full")
# [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column ... cannot be resolved. SQLSTATE: 42703
_CLASSED = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (?P<text>.+)")
# These say only that something else has failed, which stands further down.
_WRAPPERS = ("STREAM_FAILED", "PYTHON_", "FOREACH_BATCH", "FOREACH_USER", "TASK_WRITE_FAILED", "CANNOT_LOAD")
_PYTHON = re.compile(r"(?P<text>(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Warning|Exit)\b(?:: .+)?)")
_JAVA = re.compile(r"(?:: |Caused by: )?(?!py4j\.)(?:[a-z]\w*\.)+[A-Z][\w$]*: (?P<text>.+)")
# Some say nothing but their name.
_SILENT = re.compile(r"(?:: |Caused by: )?(?P<text>(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error))$")
_TAIL = re.compile(r"\s*SQLSTATE: \w+.*$|;?\s*line \d+ pos \d+;?$")


def sentence_in(text: str) -> str:
    """The one line that says what went wrong: Brant's own if there is one, else the most telling of the others."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for find in (_of_brant, _of_a_full_disk, _of_spark, _of_python, _of_java):
        found = find(lines)
        if found:
            return found
    return _clean(lines[0]) if lines else UNKNOWN


def sentence_of(error: BaseException) -> str:
    """As `sentence_in`, of an exception."""
    from brant.errors import BrantError

    if isinstance(error, BrantError):
        return str(error)
    return sentence_in(str(error))


def _of_brant(lines: list[str]) -> str | None:
    told = [match["text"] for line in lines if (match := _BRANT.search(line))]
    return _clean(told[-1]) if told else None


def _of_a_full_disk(lines: list[str]) -> str | None:
    if any(sign in line for line in lines for sign in _FULL_DISK):
        return "the disk is full: free space and run it again, nothing was lost"
    return None


def _of_spark(lines: list[str]) -> str | None:
    for line in lines:
        match = _CLASSED.search(line)
        if match and not match["name"].startswith(_WRAPPERS):
            return _clean(match["text"])
    return None


def _of_python(lines: list[str]) -> str | None:
    """The last line of the last traceback."""
    if not any("Traceback (most recent call last)" in line for line in lines):
        return None
    told = [match["text"] for line in lines if (match := _PYTHON.match(line)) and "py4j" not in line]
    return _clean(told[-1]) if told else None


def _of_java(lines: list[str]) -> str | None:
    for kind in (_JAVA, _SILENT):
        told = [match["text"] for line in lines if (match := kind.match(line))]
        if told:
            return _clean(told[-1])
    return None


def _clean(text: str) -> str:
    return without_secrets(_TAIL.sub("", text).strip())
