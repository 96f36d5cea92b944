"""Drivers killed with -9, at random moments and around the commit: every event is in the target once."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

import brant
from tests.pipeline.driving import DRIVER_S, IS_AT_LENGTH, RANDOM_KILLS, Drivers
from tests.waiting import in_thread

LONGEST_RUN_S = 1.5


class Application:
    """Publishes what is to be copied, and works with the target too, until it is stopped."""

    def __init__(self, source: Path, target: Path) -> None:
        self.published = 0
        self.enqueued = 0
        self._databases = source, target
        self._stop = threading.Event()
        self._done = in_thread(self._run)

    def stop(self) -> None:
        self._stop.set()
        self._done.result(DRIVER_S)

    def _run(self) -> None:
        with brant.open(self._databases[0]) as source, brant.open(self._databases[1]) as target:
            while not self._stop.wait(0.02):
                source.stream("events").publish_many(range(self.published, self.published + 5), keys=["k"] * 5)
                self.published += 5
                target.queue("own").enqueue(self.enqueued)
                self.enqueued += 1


class Copier(Drivers):
    """Drivers that copy a stream."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target, self.checkpoint = folder / "source.db", folder / "target.db", folder / "checkpoint"
        super().__init__("sink_driver.py", folder / "driver.log", self.source, self.target, self.checkpoint)

    def last_batch(self) -> int:
        with brant.open(self.target) as db:
            return last_batch(db)

    def noted_by_spark(self) -> set[int]:
        return {int(file.name) for file in (self.checkpoint / "commits").glob("[0-9]*")}


def last_batch(db: brant.Database) -> int:
    """As the mark in the target tells it."""
    if not db.query("SELECT 1 FROM sqlite_schema WHERE name = '_brant_spark_commits'"):
        return -1
    return max((row["batch"] for row in db.query("SELECT batch FROM _brant_spark_commits")), default=-1)


def assert_all_copied_once(copier: Copier, application: Application) -> None:
    with brant.open(copier.target) as db:
        copied = Counter(event.payload for event in db.stream("copied").read(limit=-1))
        assert copied == Counter(range(application.published))
        assert db.queue("own").stats().pending == application.enqueued
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert len(db.query("SELECT * FROM _brant_spark_commits")) == 1


@pytest.mark.guarantee("G25")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_drivers_lose_no_event_and_write_none_twice(tmp_path: Path) -> None:
    copier = Copier(tmp_path)
    application = Application(copier.source, copier.target)
    try:
        if IS_AT_LENGTH:
            copier.die_at("sink.before_commit")
            assert copier.last_batch() == -1

        copier.die_at("sink.after_commit")
        assert copier.last_batch() == 0
        assert copier.noted_by_spark() == set()

        for _ in range(RANDOM_KILLS):
            copier.die_after(copier.last_batch, LONGEST_RUN_S)

        if IS_AT_LENGTH:
            copier.die_at("sink.after_commit")
            assert copier.last_batch() not in copier.noted_by_spark()
            copier.die_at("sink.before_commit")
    finally:
        application.stop()
    copier.finish()
    assert_all_copied_once(copier, application)
    if IS_AT_LENGTH:
        play_the_last_batch_again(copier)
        assert_all_copied_once(copier, application)


def play_the_last_batch_again(copier: Copier) -> None:
    last = copier.last_batch()
    (copier.checkpoint / "commits" / str(last)).unlink()
    copier.finish()
    assert last in copier.noted_by_spark()
