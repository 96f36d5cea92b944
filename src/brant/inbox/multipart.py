"""The plain fields of a form that came as multipart/form-data; files are passed over."""

from __future__ import annotations

import re

from brant.inbox.request import Request

_BOUNDARY = re.compile(r"""multipart/form-data;.*?\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE)
_NAME = re.compile(rb'content-disposition:\s*form-data;[^\r\n]*?\bname="([^"\r\n]*)"', re.IGNORECASE)
_IS_FILE = re.compile(rb"content-disposition:[^\r\n]*\bfilename", re.IGNORECASE)
_MOST_PARTS = 1000


def multipart_fields(request: Request) -> list[tuple[str, str]]:
    """In order, with repeats; empty if the body is no such form."""
    found = _BOUNDARY.match(request.header("content-type") or "")
    if found is None:
        return []
    delimiter = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    parts = (b"\r\n" + request.body).split(b"\r\n" + delimiter, _MOST_PARTS)[1:]
    fields = []
    for part in parts:
        head, gap, value = part.partition(b"\r\n\r\n")
        name = _NAME.search(head)
        if gap and name is not None and not _IS_FILE.search(head):
            fields.append((_text(name[1]), _text(value)))
    return fields


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
