"""Drivers that archive an inbox killed with -9 while it receives: every delivery and attempt is in the lake once."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest

from brant.pipeline import status
from brant.pipeline.lake import LakeTable
from tests.pipeline.driving import DRIVER_S, RANDOM_KILLS, Drivers
from tests.pipeline.hooks import Receiver
from tests.pipeline.lakes import lake_in, project_in
from tests.waiting import in_thread

LONGEST_RUN_S = 1.5
KEPT_FORGERIES = 20


class Application:
    """Receives webhooks and handles them. Of forged ones it keeps the newest: the others are deleted at any moment."""

    def __init__(self, path: Path) -> None:
        self.accepted: list[int] = []
        self.forged = 0
        self.hooks = Receiver(path)
        self._shop = self.hooks.endpoint(max_orphans=KEPT_FORGERIES)
        self._stop = threading.Event()
        self._done = in_thread(self._run)

    def stop(self) -> None:
        self._stop.set()
        self._done.result(DRIVER_S)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.05):
            for _ in range(5):
                number += 1
                received = self.hooks.send(self._shop, f"webhook {number}")
                assert received.delivery_id is not None
                self.accepted.append(received.delivery_id)
            self.hooks.send(self._shop, f"forged {number}", valid=False)
            self.forged += 1
            if number % 50 == 0:
                self.hooks.work()


class Archiver(Drivers):
    def __init__(self, folder: Path) -> None:
        lake = lake_in(folder)
        self.deliveries: LakeTable = lake.table("bronze/deliveries")
        self.attempts: LakeTable = lake.table("bronze/attempts")
        super().__init__("archive_driver.py", folder / "driver.log", folder, "inbox")

    def finished_by_spark(self, query: str = "archive-deliveries") -> set[int]:
        folder = Path(self.deliveries.files.root, "_checkpoints", query, "commits")
        return {int(file.name) for file in folder.glob("[0-9]*")}


def ids(table: LakeTable) -> Counter[int]:
    """As pyarrow reads them, and DuckDB."""
    by_pyarrow = ds.dataset(table.url, partitioning="hive").to_table(columns=["id"]).column(0).to_pylist()
    by_duckdb = duckdb.execute("SELECT id FROM read_parquet(?)", [f"{table.url}/**/*.parquet"]).fetchall()
    assert sorted(by_pyarrow) == sorted(row[0] for row in by_duckdb)
    return Counter(by_pyarrow)


@pytest.mark.guarantee("G26")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("BRANT_DRIVER_KILLS" not in os.environ, reason="takes long; make test-slow runs it")
def test_killed_drivers_lose_no_delivery_and_archive_none_twice(tmp_path: Path) -> None:
    archiver = Archiver(tmp_path)
    application = Application(tmp_path / "app.db")
    try:
        archiver.die_at("archive-deliveries.before_write")
        assert archiver.deliveries.log.last() is None

        archiver.die_at("archive-deliveries.after_write")
        assert archiver.deliveries.log.last_complete() == 0
        assert archiver.finished_by_spark() == set()

        archiver.die_at("lake.between_moves")
        unfinished = [table.log.last() for table in (archiver.deliveries, archiver.attempts)]
        assert any(batch is not None and not batch.complete for batch in unfinished)

        for _ in range(RANDOM_KILLS):
            archiver.die_after(archiver.deliveries.log.last_complete, LONGEST_RUN_S)

        archiver.die_at("archive-attempts.after_write")
        assert archiver.attempts.log.last_complete() not in archiver.finished_by_spark("archive-attempts")
    finally:
        application.stop()
    archiver.finish()
    found = ids(archiver.deliveries)
    assert set(found.values()) == {1}
    assert set(application.accepted) <= found.keys(), "what was accepted was never deleted"
    (query,) = (each for each in status(project_in(tmp_path)).queries if each.query == "archive-deliveries")
    assert query.counts["lost"] > 0
    assert len(found) + query.counts["lost"] == len(application.accepted) + application.forged
    attempts = application.hooks.db.query("SELECT id FROM knocker_attempts")
    assert ids(archiver.attempts) == Counter(row["id"] for row in attempts)
    application.hooks.close()
