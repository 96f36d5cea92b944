"""Drivers killed with -9 while they refine: every event is in silver or in quarantine, and only once."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import pytest

import brant
from brant.pipeline.lake import BatchLog, LakeFiles
from tests.pipeline.driving import DRIVER_S, IS_AT_LENGTH, RANDOM_KILLS, Drivers
from tests.waiting import in_thread

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


class Refinery(Drivers):
    """Drivers that archive and refine."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "app.db"
        self.lake = folder / "lake"
        project = folder / "brant-pipeline.toml"
        project.write_text(PROJECT)
        super().__init__("refine_driver.py", folder / "driver.log", project)

    def last_batch(self) -> int:
        return BatchLog(LakeFiles(str(self.lake)), "silver/orders").last_complete()

    def column(self, table: str, name: str) -> Counter[int]:
        """As any reader of Parquet sees it."""
        from pyarrow import dataset

        rows = dataset.dataset(self.lake / table, format="parquet", partitioning="hive", exclude_invalid_files=False)
        return Counter(rows.to_table(columns=[name]).column(name).to_pylist())


@pytest.mark.guarantee("G26")
@pytest.mark.skipif("BRANT_DRIVER_KILLS" not in os.environ, reason="takes long; make test-slow runs it")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_drivers_lose_no_row_and_write_none_twice(tmp_path: Path) -> None:
    refinery = Refinery(tmp_path)
    application = Application(refinery.database)
    try:
        refinery.die_at("refine.before_write")
        refinery.die_at("refine.after_write")
        for _ in range(RANDOM_KILLS):
            refinery.die_after(refinery.last_batch, LONGEST_RUN_S)
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
