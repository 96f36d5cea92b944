"""Jobs that end together, while nothing can be committed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brant
from tests.waiting import PATIENCE_S, write_lock_held
from tests.worker.observing import RunningWorker


class Together:
    """A job of the function for each of the first numbers; they are settled after each other, or together."""

    def __init__(
        self, db: brant.Database, path: Path, function: Callable[[int], Any], jobs: int, **options: Any
    ) -> None:
        self._path = path
        self._function = function
        self._go = threading.Event()
        self._left = threading.Semaphore(0)
        self.task = db.queue("q").task("answer", **{"retry_delay_s": 0} | options)(self._answer)
        self.calls = [self.task(number) for number in range(jobs)]

    def _answer(self, number: int) -> Any:
        self._go.wait(PATIENCE_S)
        try:
            return self._function(number)
        finally:
            self._left.release()

    def end(self, crew: RunningWorker) -> None:
        crew.wait("start", len(self.calls))
        with write_lock_held(self._path):
            self._go.set()
            for _ in self.calls:
                assert self._left.acquire(timeout=PATIENCE_S)
