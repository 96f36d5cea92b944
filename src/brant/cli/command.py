"""What a command is, and what it is given to run."""

from __future__ import annotations

import os

import brant
from brant.cli.output import complain
from brant.config import Settings, Target, refuse_control_characters, resolve
from brant.errors import InvalidValue, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

DONE, FAILED, NOTHING = 0, 1, 2


class Command:
    """A command's help, arguments and action; the action gives the exit code."""

    def __init__(
        self,
        summary: str,
        arguments: Callable[[ArgumentParser], object],
        run: Callable[[Context, Namespace], int],
        *,
        description: str = "",
    ) -> None:
        self.summary = summary
        self.arguments = arguments
        self.run = run
        self.description = description or summary


class Context:
    """The global options, and the database that they name."""

    def __init__(self) -> None:
        self.directory: str | None = None
        self.file: str | None = None
        self.quiet = False
        self.as_json = False
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = Settings()
        return self._settings

    def target(self) -> Target:
        """Which database, with what the user typed checked."""
        for path, option in ((self.directory, "-d"), (self.file, "-f")):
            refuse_control_characters(path or "", option)
        if self.directory is not None and not os.path.isdir(self.directory):
            is_file = os.path.exists(self.directory)
            raise InvalidValue(f"{self.directory} {'is no directory' if is_file else 'does not exist; make it first'}")
        target = resolve(self.directory, self.file, settings=self.settings)
        if self.file is not None and not os.path.isabs(self.file) and not target.is_server:
            _refuse_escape(target.path, self.directory or os.getcwd())
        return target

    def open(self, *, writes: bool = False) -> brant.Database:
        """The database; made where it is not there, except where a project file names it and nothing is written."""
        target = self.target()
        if target.must_exist and not writes and not target.exists():
            raise StorageError(f"there is no database at {target}, which {target.reason} names; write to it first")
        return self.open_target(target)

    def open_target(self, target: Target) -> brant.Database:
        """That database; its file and one directory above it are made where they are missing."""
        if not target.is_server:
            _make_parent(target.path)
        return brant.open(
            target.path,
            synchronous=self.settings.sync_mode,
            busy_timeout_ms=self.settings.busy_timeout_ms,
            max_message_bytes=self.settings.max_message_size,
        )

    def tell(self, text: str) -> None:
        """Say what was done, on stderr, unless -q."""
        if not self.quiet:
            complain(text)


def _refuse_escape(path: str, folder: str) -> None:
    root = os.path.realpath(folder)
    if os.path.commonpath([os.path.realpath(path), root]) != root:
        raise InvalidValue(f"{path} must be within the working directory; give an absolute path if you mean it")


def _make_parent(path: str) -> None:
    parent = os.path.dirname(path)
    if os.path.isdir(parent):
        return
    if not os.path.isdir(os.path.dirname(parent)):
        raise InvalidValue(f"the directory {os.path.dirname(parent)} does not exist; make it first")
    os.makedirs(parent, exist_ok=True)  # another process may have been faster
