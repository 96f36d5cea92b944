"""Which databases a path stands for: one, a folder of files or a glob; each is a tenant. An address is one."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from brant.config import is_address, without_password
from brant.pipeline.errors import PipelineError

_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_BESIDE = ("-wal", "-shm", "-journal")
_WILD = "*?["
_GRAIN_S = 3.0


class Tenants:
    """The tenants of a path; asked again, it finds those that have come since."""

    def __init__(self, path: str) -> None:
        self.path = path if is_address(path) else _local(path)
        self.is_many = not is_address(path) and self._is_many()

    def __str__(self) -> str:
        """The path as it may be shown."""
        return without_password(self.path)

    def _is_many(self) -> bool:
        return os.path.isdir(self.path) or (_is_wild(self.path) and not os.path.exists(self.path))

    def find(self) -> dict[str, str]:
        """The database of each tenant; only names are looked at, none is opened."""
        if is_address(self.path):
            from brant.pipeline.postgres import tenant_of

            return {tenant_of(self.path): self.path}
        if not self.is_many:
            return {_tenant(os.path.basename(self.path)): self.path}
        pattern = self.path if not os.path.isdir(self.path) else os.path.join(glob.escape(self.path), "*")
        base = _fixed_folder(self.path) if pattern == self.path else self.path
        found: dict[str, str] = {}
        for path in sorted(glob.glob(pattern, recursive=True)):
            if not _is_database_name(path, any_suffix=pattern == self.path) or not _is_file(path):
                continue
            tenant = _tenant(os.path.relpath(path, base))
            if tenant in found:
                raise PipelineError(f"{found[tenant]} and {path} would both be the tenant {tenant!r}; rename one")
            found[tenant] = path
        return found

    def found(self) -> dict[str, str]:
        """As `find`, where nothing at all is an error."""
        tenants = self.find()
        if not tenants:
            suffixes = ", ".join(_SUFFIXES)
            raise PipelineError(f"no database matches {self.path}; in a folder their names end in {suffixes}")
        for path in tenants.values():
            if not is_address(path):
                require_file(path)
        return tenants


def require_file(path: str) -> None:
    if os.path.isdir(path):
        raise PipelineError(f"{path} is a folder, not a database")
    if not _is_file(path):
        raise PipelineError(f"there is no database {path}; a reader never creates one")


class Quiet:
    """Remembers what a file held for as long as nobody writes to it: many idle tenants cost no look into each.

    Only the times and sizes of the file and its log are asked for. A write within the grain of these times would not
    show, so that what was written a moment ago is not remembered.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[tuple[object, ...], int]] = {}

    def held(self, path: str) -> int | None:
        signature, value = self._held.get(path, ((), 0))
        return value if signature and signature == _signature(path)[0] else None

    def look(self, path: str, now: float) -> Callable[[int], None]:
        """Call before a look into the file, and the answer with what was found there."""
        signature, written_at = _signature(path)

        def keep(value: int) -> None:
            if 0 <= written_at < now - _GRAIN_S:
                self._held[path] = signature, value

        return keep


def _signature(path: str) -> tuple[tuple[object, ...], float]:
    """What changes with every write, and when the last one was."""
    parts: list[object] = []
    written_at = -1.0
    for name in (path, f"{path}-wal"):
        try:
            found = os.stat(name)
        except OSError:
            continue
        if not found.st_size:
            continue  # an empty log holds nothing, and comes and goes with readers too
        parts.append((name, found.st_ino, found.st_size, found.st_mtime_ns))
        written_at = max(written_at, found.st_mtime)
    return tuple(parts), written_at


def _local(path: str) -> str:
    parts = urlsplit(path)
    if parts.scheme == "file":
        return os.path.abspath(unquote(parts.path))
    if "://" in path:
        raise PipelineError(
            f"{parts.scheme!r} databases cannot be read; give the path of an SQLite file, or "
            "postgresql://user@host/database"
        )
    return os.path.abspath(os.path.expanduser(path))


def _is_wild(path: str) -> bool:
    return any(character in path for character in _WILD)


def _fixed_folder(pattern: str) -> str:
    folder = os.path.dirname(pattern)
    while _is_wild(folder):
        folder = os.path.dirname(folder)
    return folder


def _is_database_name(path: str, *, any_suffix: bool) -> bool:
    name = os.path.basename(path)
    if name.startswith(".") or name.endswith(_BESIDE):
        return False
    return any_suffix or name.endswith(_SUFFIXES)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _tenant(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    return unquote(stem if suffix in _SUFFIXES else name)
