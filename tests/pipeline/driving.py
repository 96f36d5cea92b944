"""Programs that drive Spark, started to be killed: at a named point, or whatever they are doing."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

RANDOM_KILLS = int(os.environ.get("BRANT_DRIVER_KILLS", "1"))
IS_AT_LENGTH = "BRANT_DRIVER_KILLS" in os.environ
# A driver takes many seconds to start, and more beside other tests.
DRIVER_S = 240
# The last one has to catch up with all that was published meanwhile.
FINISH_S = DRIVER_S * 5 if IS_AT_LENGTH else DRIVER_S


class Drivers:
    """Starts drivers of one kind and sees them die. The program gets `words`, then `forever` or `once`."""

    def __init__(self, program: str, log: Path, *words: object) -> None:
        self._program = Path(__file__).with_name(program)
        self._words = [str(word) for word in words]
        self._log = log
        seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
        print(f"again by BRANT_SEED={seed}")
        self._chance = random.Random(seed)

    def die_at(self, point: str) -> None:
        """All its processes are killed at once: nobody is left who could note anything.

        `refine.after_write@2` is the second time that it gets there.
        """
        name, _, occurrence = point.partition("@")
        with self._driver(failpoint=f"{name}:kill-all@{occurrence or 1}") as process:
            assert process.wait(DRIVER_S) == -signal.SIGKILL, self._log.read_text()

    def die_after(self, batches: Callable[[], int], longest_s: float) -> None:
        """Killed within moments of its first batch, whatever it is doing then."""
        before, end = batches(), time.monotonic() + DRIVER_S
        with self._driver() as process:
            while batches() == before:
                assert process.poll() is None, self._log.read_text()
                assert time.monotonic() < end, self._log.read_text()
                time.sleep(0.01)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(self._chance.uniform(0, longest_s))

    def finish(self) -> None:
        with self._driver("once") as process:
            assert process.wait(FINISH_S) == 0, self._log.read_text()

    @contextmanager
    def _driver(self, how_long: str = "forever", failpoint: str = "") -> Iterator[subprocess.Popen[bytes]]:
        settings = {
            "BRANT_FAILPOINT": failpoint,
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": str(self._program.parents[2]),
        }
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(self._program), *self._words, how_long],
                env=os.environ | settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            # The JVM too, which is in the group; its Python processes are left to find out by themselves, as they
            # are when the system runs out of memory.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
