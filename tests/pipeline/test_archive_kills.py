"""The archive's driver killed with -9, while an application writes and prunes: every event is in the lake once."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import brant
from brant.pipeline.jobs.archive import CONSUMER
from brant.pipeline.lake import LakeTable
from tests.pipeline.driving import DRIVER_S, IS_AT_LENGTH, RANDOM_KILLS, Drivers
from tests.pipeline.lakes import assert_each_once, by_pyarrow, lake_in
from tests.waiting import in_thread

LONGEST_RUN_S = 1.5


class Application:
    """Publishes numbers, and deletes what it may: what every named consumer has passed."""

    def __init__(self, path: Path) -> None:
        self.published = 0
        self.pruned = 0
        self._path = path
        self._stop = threading.Event()
        with brant.open(path) as db:
            db.stream("events").save_offset(CONSUMER, 0)
        self._done = in_thread(self._run)

    def stop(self) -> None:
        self._stop.set()
        self._done.result(DRIVER_S)

    def _run(self) -> None:
        with brant.open(self._path) as db:
            stream = db.stream("events")
            while not self._stop.wait(0.02):
                stream.publish_many(range(self.published, self.published + 5))
                self.published += 5
                self.pruned += stream.prune(keep=0)


class Archiver(Drivers):
    """Drivers that archive."""

    def __init__(self, folder: Path) -> None:
        self.table: LakeTable = lake_in(folder).bronze()
        super().__init__("archive_driver.py", folder / "driver.log", folder, "events")

    def finished_by_spark(self) -> set[int]:
        folder = Path(self.table.files.root, "_checkpoints", "archive", "commits")
        return {int(file.name) for file in folder.glob("[0-9]*")}


def payloads(table: LakeTable) -> Counter[int]:
    rows = ds.dataset(table.url, partitioning="hive").to_table(columns=["payload"])
    return Counter(int(text) for text in rows.column(0).to_pylist())


@pytest.mark.guarantee("G26")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_drivers_lose_no_event_and_archive_none_twice(tmp_path: Path) -> None:
    archiver = Archiver(tmp_path)
    application = Application(tmp_path / "app.db")
    try:
        if IS_AT_LENGTH:
            archiver.die_at("archive.before_write")
            assert archiver.table.log.last() is None

        archiver.die_at("archive.after_write")
        assert archiver.table.log.last_complete() == 0
        assert archiver.finished_by_spark() == set()

        archiver.die_at("lake.between_moves")
        assert archiver.table.log.numbers()[-1] == archiver.table.log.last_complete() + 1

        for _ in range(RANDOM_KILLS):
            archiver.die_after(archiver.table.log.last_complete, LONGEST_RUN_S)

        if IS_AT_LENGTH:
            archiver.die_at("archive.after_write")
            assert archiver.table.log.last_complete() not in archiver.finished_by_spark()
    finally:
        application.stop()
    archiver.finish()
    assert application.pruned > 0
    assert payloads(archiver.table) == Counter(range(application.published))
    assert_each_once(archiver.table, sorted(by_pyarrow(archiver.table)))
    assert len(set(by_pyarrow(archiver.table))) == application.published
