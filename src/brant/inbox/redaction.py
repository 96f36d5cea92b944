"""Credentials are taken out before a request is stored."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable

from brant.arguments import storable

REDACTED = "[redacted]"
_CREDENTIALS = re.compile(
    r"authorization|cookie|passw|secret|token|api[-_]?key|access[-_]?key|credential", re.IGNORECASE
)
# A signature is no credential: it is good for this one body, and tells an auditor what was checked.
_SIGNATURES = re.compile(r"signature|digest", re.IGNORECASE)


_encode = json.JSONEncoder(ensure_ascii=False).encode


@functools.lru_cache(maxsize=1024)
def _is_credential(lowered: str) -> bool:
    return not _SIGNATURES.search(lowered) and _CREDENTIALS.search(lowered) is not None


class Redaction:
    """Which headers and query parameters are stored without their values."""

    def __init__(self, also: Iterable[str] = (), keep: Iterable[str] = ()) -> None:
        self._also = frozenset(name.lower() for name in also)
        self._keep = frozenset(name.lower() for name in keep)

    def hides(self, name: str) -> bool:
        lowered = name.lower()
        if lowered in self._also:
            return True
        return lowered not in self._keep and _is_credential(lowered)

    def as_json(self, pairs: Iterable[tuple[str, str]]) -> str:
        """An object; what came several times has a list of its values."""
        found: dict[str, str | list[str]] = {}
        for name, value in pairs:
            name, value = storable(name), REDACTED if self.hides(name) else storable(value)
            known = found.get(name)
            if known is None:
                found[name] = value
            elif isinstance(known, list):
                known.append(value)
            else:
                found[name] = [known, value]
        return _encode(found) if found else "{}"
