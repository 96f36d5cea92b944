"""Drivers killed with -9 while they refine: every event is in silver or in quarantine, and only once."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

import brant
from tests.waiting import in_thread

RANDOM_KILLS = int(os.environ.get("BRANT_DRIVER_KILLS", "1"))
IS_AT_LENGTH = "BRANT_DRIVER_KILLS" in os.environ
DRIVER = Path(__file__).with_name("refine_driver.py")
# A driver takes many seconds to start, and more beside other tests.
DRIVER_S = 240
LONGEST_RUN_S = 3.0
PROJECT = """
[pipeline]
database = "app.db"
[archive]
max_events_per_batch = 500
[silver.orders]
topic = "orders"
schema = "id bigint"
key = "id"
"""


class Application:
    """Publishes orders, each second one twice and each fifth one broken, until it is stopped."""

    def __init__(self, path: Path) -> None:
        self.published = 0
        self._path = path
        self._stop = threading.Event()
        self._done = in_thread(self._run)

    def stop(self) -> None:
        self._stop.set()
        self._done.result(DRIVER_S)

    def _run(self) -> None:
        with brant.open(self._path) as db:
            while not self._stop.wait(0.02):
                number = self.published
                good = [{"id": number}] * (1 + number % 2)
                broken = [{"id": "?", "number": number}] * (number % 5 == 0)
                db.stream("orders").publish_many([*good, *broken])
                self.published += 1


class Refinery:
    """Starts drivers and sees them die."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "app.db"
        self.lake = folder / "lake"
        self._project = folder / "brant-pipeline.toml"
        self._project.write_text(PROJECT)
        self._log = folder / "driver.log"

    @contextmanager
    def driver(self, how_long: str = "forever", failpoint: str = "") -> Iterator[subprocess.Popen[str]]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(DRIVER), str(self._project), how_long],
                env=os.environ | {"BRANT_FAILPOINT": failpoint, "PYTHONWARNINGS": "ignore"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            # The JVM too, which is in the group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out(process).close()

    def die_at(self, point: str) -> None:
        """`refine.after_write@2` is the second time that it gets there."""
        name, _, time = point.partition("@")
        with self.driver(failpoint=f"{name}:kill@{time or 1}") as process:
            reading = in_thread(out(process).read)
            assert process.wait(DRIVER_S) == -signal.SIGKILL, self._log.read_text()
        reading.result(DRIVER_S)

    def die_somewhere(self, chance: random.Random) -> None:
        """Killed within moments of a batch of silver, whatever it is doing then."""
        with self.driver() as process:
            in_thread(lambda: next(line for line in out(process) if line.startswith("refine"))).result(DRIVER_S)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, LONGEST_RUN_S))

    def finish(self) -> None:
        with self.driver("once") as process:
            assert process.wait(DRIVER_S) == 0, self._log.read_text()

    def column(self, table: str, name: str) -> Counter[int]:
        """As any reader of Parquet sees it."""
        from pyarrow import dataset

        rows = dataset.dataset(self.lake / table, format="parquet", partitioning="hive", exclude_invalid_files=False)
        return Counter(rows.to_table(columns=[name]).column(name).to_pylist())


def out(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


@pytest.mark.guarantee("G26")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_drivers_lose_no_row_and_write_none_twice(tmp_path: Path) -> None:
    seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
    print(f"again by BRANT_SEED={seed}")
    chance = random.Random(seed)
    refinery = Refinery(tmp_path)
    application = Application(refinery.database)
    try:
        refinery.die_at("refine.before_write")
        refinery.die_at("refine.after_write")
        for _ in range(RANDOM_KILLS):
            refinery.die_somewhere(chance)
        if IS_AT_LENGTH:
            for point in ("refine.before_write", "refine.after_write", "lake.before_moves", "lake.after_moves"):
                refinery.die_at(f"{point}@2")
    finally:
        application.stop()
    refinery.finish()

    assert refinery.column("silver/orders", "id") == Counter(range(application.published))
    with brant.open(refinery.database) as db:
        broken = [event.offset for event in db.stream("orders").read(limit=-1) if event.payload["id"] == "?"]
    assert refinery.column("quarantine/orders", "offset") == Counter(broken)
