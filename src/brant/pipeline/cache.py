"""The cache folder: files that are made once, that all processes share, and that may be deleted at any time."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile


def cache_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path in the variable is to be ignored, says its specification.
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "brant")


def kept_script(name: str, text: str) -> str:
    """The path of an executable script with that text; for this process only where the cache can't be written."""
    path = os.path.join(cache_folder(), name)
    try:
        _keep(path, text)
    except OSError:
        path = os.path.join(_own_folder(), name)
        _keep(path, text)
    return path


def _keep(path: str, text: str) -> None:
    if not _holds(path, text):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _put(path, text)


@functools.cache
def _own_folder() -> str:
    folder = tempfile.mkdtemp(prefix="brant-spark-")
    # Spark's Java may start one more Python after this process has ended; it then fails, and nobody waits for it.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _holds(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as script:
            return script.read() == text and os.access(path, os.X_OK)
    except FileNotFoundError:
        return False


def _put(path: str, text: str) -> None:
    """By rename, so that another process that starts now runs the old script or the new one, never half of one."""
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(descriptor, "w", encoding="utf-8") as script:
            script.write(text)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
