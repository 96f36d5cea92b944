"""Named SQL, read from the .sql files of a backend.

A file holds statements under ``-- name: claim`` headers and pieces that several of them share under
``-- fragment: ready``; ``{{ready}}`` in a statement stands for the piece.
"""

from __future__ import annotations

import functools
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_INCLUDE = re.compile(r"\{\{(\w+)\}\}")


@functools.cache
def load_statements(folder: str) -> dict[str, str]:
    """All statements of the folder by name; a name used twice or a missing fragment is an error."""
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), encoding="utf-8") as lines:
            for kind, name, text in _parts(lines.read()):
                if name in found[kind]:
                    raise KeyError(f"{file}: the {kind} {name!r} is defined twice")
                found[kind][name] = text
    return {name: _with_fragments(text, found["fragment"]) for name, text in found["name"].items()}


def _parts(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, name and text of each statement and fragment. Comments stand above the headers, and nowhere else."""
    for part in f"\n{text}".split("\n-- "):
        head, _, body = part.partition("\n")
        kind, _, name = head.partition(": ")
        is_comment = kind not in ("name", "fragment")
        if "--" in body or (is_comment and body.strip()):
            # In a fragment it would swallow the rest of the line that the fragment is put into.
            raise ValueError(f"a comment inside a statement: {head!r}; put it above the header")
        if not is_comment:
            yield kind, name, body.strip()


def _with_fragments(text: str, fragments: dict[str, str]) -> str:
    while "{{" in text:
        text = _INCLUDE.sub(lambda match: fragments[match[1]], text)
    return text
