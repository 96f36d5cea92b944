"""The archive of Spark's classes: made once, used by every start after that, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from brant.pipeline.classes import archive_options, archive_path, make_archive_at_exit
from brant.pipeline.java import Java, find_java
from tests.pipeline.programs import run

START = """
    import brant.pipeline
    spark = brant.pipeline.session(config={"spark.driver.extraJavaOptions": "-Xlog:class+load:file=%s"})
    print(spark.range(10).count())
"""
SHARED = "shared objects file (top)"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    folder = tmp_path / "brant"
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("BRANT_EVERYWHERE" not in os.environ, reason="takes minutes: `make test-slow` runs it")
def test_two_that_make_it_at_once_make_one_and_the_next_start_uses_it(cache: Path, tmp_path: Path) -> None:
    makers = [subprocess.Popen([sys.executable, "-m", "brant.pipeline.training"]) for _ in range(2)]
    assert [maker.wait() for maker in makers] == [0, 0]
    path = Path(archive_path(find_java()))
    assert {file.name for file in cache.glob("classes-*")} == {path.name, f"{path.name}.lock"}
    loaded = tmp_path / "loaded.txt"
    done = run(START % loaded)
    assert (done.stdout, done.stderr) == ("10\n", "")
    context = next(line for line in loaded.read_text().splitlines() if " org.apache.spark.SparkContext " in line)
    assert SHARED in context


@pytest.mark.slow
@pytest.mark.skipif("BRANT_EVERYWHERE" not in os.environ, reason="takes a minute: `make test-slow` runs it")
def test_a_damaged_archive_is_passed_over_without_a_word(cache: Path, tmp_path: Path) -> None:
    Path(archive_path(find_java())).write_bytes(b"no archive" * 1000)
    done = run(START % (tmp_path / "loaded.txt"))
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_each_java_has_an_archive_of_its_own(cache: Path) -> None:
    java = find_java()
    newer = Java(java.executable, java.where, "99.0.1", java.build.replace(java.version, "99.0.1"))
    assert archive_path(java) != archive_path(newer)


def test_without_an_archive_java_is_asked_for_none(cache: Path) -> None:
    assert archive_options(find_java()) == []


def test_while_another_process_makes_it_nobody_else_does(cache: Path) -> None:
    path = archive_path(find_java())
    program = """
        import fcntl, os, sys
        from brant.pipeline import classes
        from brant.pipeline.java import find_java
        lock = os.open(sys.argv[1] + ".lock", os.O_CREAT | os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(classes.make_archive(find_java()))
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line.strip() for line in program.splitlines()), path],
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("None\n", "")
    assert not Path(path).exists()


def test_after_a_failure_it_is_not_tried_again_the_same_day(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []
    monkeypatch.setattr("atexit.register", lambda *call: registered.append(call))
    java = find_java()
    failed = Path(f"{archive_path(java)}.failed")
    failed.touch()
    make_archive_at_exit(java)
    assert registered == []
    os.utime(failed, (0, 0))
    make_archive_at_exit(java)
    assert len(registered) == 1
