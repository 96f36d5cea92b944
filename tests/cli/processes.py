"""A command that goes on while the test looks at it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.conftest import COMMAND, clean_environment
from tests.waiting import PATIENCE_S, in_thread


class Running:
    """A `brant` with these words, of a session of its own: no terminal of the test's takes part in its signals."""

    def __init__(self, directory: Path, words: tuple[object, ...], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [COMMAND, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env=clean_environment(**environment),
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout = self.process.stdout
        self.stderr = self.process.stderr

    def line(self) -> str:
        return in_time(self.stdout.readline).removesuffix("\n")

    def error_line(self) -> str:
        return in_time(self.stderr.readline).removesuffix("\n")

    def stopped_by(self, number: int) -> int:
        self.process.send_signal(number)
        return self.exit_code()

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)


@contextmanager
def running(directory: Path, *words: object, **environment: str) -> Iterator[Running]:
    """Killed at the end of the block if it still runs."""
    started = Running(directory, words, environment)
    with started.process:
        try:
            yield started
        finally:
            started.process.kill()


def in_time(read: Callable[[], str]) -> str:
    return in_thread(read).result(PATIENCE_S)
