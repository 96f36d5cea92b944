"""Named SQL, read from the .sql files of a backend.

A file holds statements under ``-- name: claim`` headers and pieces that several of them share under
``-- fragment: ready``; ``{{ready}}`` in a statement stands for the piece.
"""

from __future__ import annotations

import functools
import os
import re

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"\{\{(\w+)\}\}")


@functools.cache
def load_statements(folder: str) -> dict[str, str]:
    """All statements of the folder by name; a name used twice or a missing fragment is an error."""
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), encoding="utf-8") as lines:
            _, *parts = _HEADER.split(lines.read())
        for kind, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if name in found[kind]:
                raise KeyError(f"{file}: the {kind} {name!r} is defined twice")
            found[kind][name] = _without_comments(text)
    return {name: _with_fragments(text, found["fragment"]) for name, text in found["name"].items()}


def _without_comments(text: str) -> str:
    # A comment above a header belongs to what follows it, and inside a fragment it would swallow the rest of a line.
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--"))


def _with_fragments(text: str, fragments: dict[str, str]) -> str:
    while _INCLUDE.search(text):
        text = _INCLUDE.sub(lambda match: fragments[match[1]], text)
    return text
