"""The file system that a lake is on: the local one with its guarantees, or any that pyarrow can reach."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from pyarrow import fs

from brant.pipeline.errors import PipelineError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class LakeFiles:
    """Paths are relative to the lake's root. Local files are synced to the disk before anything relies on them."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"
        self._system, self._base = _resolved(self.root)
        self.is_local = isinstance(self._system, fs.LocalFileSystem)

    def local(self, path: str) -> str:
        """The path as the system's own calls take it."""
        return f"{self._base}/{path}" if path else self._base

    def url(self, path: str) -> str:
        """The path as Spark takes it."""
        return self.local(path) if self.is_local else f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._system.get_file_info(self.local(path)).type != fs.FileType.NotFound)

    def read(self, path: str) -> bytes | None:
        """None when there is no such file."""
        try:
            with self._system.open_input_stream(self.local(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Whole or not at all; on a local disk it is there after a power cut, too."""
        folder = os.path.dirname(path)
        self.make_folder(folder)
        half = f"{folder}/.{os.path.basename(path)}.half"
        with self._system.open_output_stream(self.local(half)) as stream:
            stream.write(content)
        self.sync(half)
        self.move(half, path)
        self.sync(folder)

    def make_folder(self, path: str) -> None:
        self._system.create_dir(self.local(path), recursive=True)

    def move(self, path: str, to: str) -> None:
        self._system.move(self.local(path), self.local(to))

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_file(self.local(path))

    def remove_folder(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_dir(self.local(path))

    def files(self, path: str) -> list[fs.FileInfo]:
        """All files below a folder; `path_of` makes their paths relative again."""
        found = self._system.get_file_info(fs.FileSelector(self.local(path), recursive=True, allow_not_found=True))
        return sorted((info for info in found if info.is_file), key=lambda info: info.path)

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        found = self._system.get_file_info(fs.FileSelector(self.local(path), allow_not_found=True))
        return sorted(info.base_name for info in found)

    def path_of(self, info: fs.FileInfo) -> str:
        return str(info.path)[len(self._base) + 1 :]

    def open(self, path: str) -> fs.NativeFile:
        return self._system.open_input_file(self.local(path))

    def sync(self, path: str) -> None:
        if not self.is_local:
            return  # an object store has it once the write has ended
        descriptor = os.open(self.local(path), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, path: str, to: str) -> None:
        """A second name for a file, of local lakes only."""
        self.make_folder(os.path.dirname(to))
        os.link(self.local(path), self.local(to))

    def exchange(self, path: str, other: str) -> None:
        """Swap two folders in one step, so that whoever lists sees the one or the other."""
        if not (self.is_local and _exchanged(self.local(path), self.local(other))):
            aside = f"{os.path.dirname(other)}/.{os.path.basename(other)}.aside"
            self.move(path, aside)
            self.move(other, path)
            self.move(aside, other)

    @contextmanager
    def locked(self, path: str, what: str, *, wait: bool = False) -> Iterator[None]:
        """Alone among the processes of this machine; without `wait`, another one that is at it is an error."""
        if not self.is_local:
            yield
            return
        self.make_folder(os.path.dirname(path))
        with open(self.local(path), "a") as file:
            _lock(file, what, wait=wait)
            yield

    @contextmanager
    def told_when_full(self) -> Iterator[None]:
        """A full disk as one sentence, whoever met it first: Spark's JVM, or this process."""
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            if os.strerror(errno.ENOSPC) in str(error):
                raise PipelineError(
                    f"the disk of the lake {self.root} is full; nothing was harmed: make room, and run it again"
                ) from error
            raise


def _resolved(root: str) -> tuple[fs.FileSystem, str]:
    if "://" not in root:
        return fs.LocalFileSystem(), os.path.abspath(root)
    try:
        system, base = fs.FileSystem.from_uri(root)
    except (ValueError, OSError, ImportError) as error:
        raise PipelineError(f"the lake {root} can't be reached: {error}") from None
    return system, base.rstrip("/")


def _lock(file: IO[str], what: str, *, wait: bool) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PipelineError(f"{what} is being written by another process: wait for it, or stop it") from None


def _exchanged(path: str, other: str) -> bool:
    """False where the system has no such call."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    done = rename(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(done == 0)
