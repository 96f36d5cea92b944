"""A module with tasks, as a user has one, and the jobs that a test puts into its queues."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import brant
from brant.tasks import envelope

HEAD = """
import os, sys, time
import brant
from brant.worker import current_task

db = brant.open("app.db")
emails = db.queue("emails", visibility_timeout_s=2)
"""


def write_module(directory: Path, tasks: str, name: str = "app") -> None:
    (directory / f"{name}.py").write_text(HEAD + tasks, "utf-8")


def enqueue(db: brant.Database, task: str, *calls: tuple[object, ...], queue: str = "emails") -> list[int]:
    """A job for each of these calls, or one without arguments; two attempts each."""
    payloads = [envelope(f"app.{task}", arguments, {}) for arguments in calls or [()]]
    return db.queue(queue).enqueue_many(payloads, max_attempts=2)


def wait_until_empty(db: brant.Database, queue: str = "emails") -> None:
    with closing(db.update_events()) as commits:
        while db.queue(queue).stats().total:
            commits.wait(5)


class Gate:
    """Functions read a byte of it before they go on; the test lets as many through as it likes."""

    def __init__(self, directory: Path) -> None:
        os.mkfifo(directory / "gate")
        # Open for both: neither end then waits for the other, nor sees it close.
        self._descriptor = os.open(directory / "gate", os.O_RDWR)

    def let_through(self, how_many: int) -> None:
        os.write(self._descriptor, b"x" * how_many)

    def close(self) -> None:
        os.close(self._descriptor)


def numbers_in(path: Path) -> list[int]:
    return sorted(map(int, path.read_text("utf-8").split()))


def calls(numbers: Iterable[int]) -> list[tuple[object, ...]]:
    return [(number,) for number in numbers]
