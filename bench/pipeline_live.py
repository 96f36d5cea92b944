"""Spark beside a live application: what the archive does, what it costs the writer, starting, batches and memory.

`python -m bench.pipeline_live` prints these lines alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import brant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from brant.pipeline.lake import Lake
    from brant.pipeline.project import Project

NAME = "spark live"
_TURN_S = 8.0
_TURNS = 3
_TRICKLE = 30
_SIZES = (500_000, 4_000_000)
_AT_ONCE = 10_000
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1024 * 1024

WRITER = """
import sys, time, brant
note = "a line of text of usual length for an event"
batches = [[{"id": first + n, "kind": "order", "note": note} for n in range(100)] for first in range(0, 2000, 100)]
stream = brant.open(sys.argv[1]).stream("events")
print("ready", flush=True)
for line in sys.stdin:
    start = now = time.perf_counter()
    commits = 0
    while now < start + float(line):
        stream.publish_many(batches[commits % len(batches)])
        commits += 1
        now = time.perf_counter()
    print(commits * 100 / (now - start), flush=True)
"""

START = """
import sys, brant.pipeline
spark = brant.pipeline.session()
print(spark.read.format("brant").load(sys.argv[1]).first()["offset"], flush=True)
"""


@dataclass(frozen=True)
class Figure:
    """A measured value; `goal` is the least or the most it should be."""

    what: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def reached(self) -> bool:
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def __str__(self) -> str:
        goal = self.at_least if self.at_least is not None else self.at_most
        digits = 0 if self.value >= 100 else 1
        aim = "" if goal is None else f" (goal: {goal:,.10g}){'' if self.reached else ' !'}"
        return f"{self.what}: {self.value:,.{digits}f} {self.unit}{aim}"


def shown(folder: Path) -> Iterator[Figure]:
    """Each is printed as soon as it is there."""
    for figure in figures(folder):
        print(figure, flush=True)
        yield figure


def figures(folder: Path) -> Iterator[Figure]:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        print("Spark is not installed: the archive is left out; pip install 'brant[spark]'")
        return
    place = folder / "live"
    place.mkdir()
    yield from _starts(place)
    from brant.pipeline import session

    spark = session("bench of the archive")
    try:
        yield from _beside_a_writer(spark, place)
        yield from _micro_batches(spark, place)
        yield from _memory(spark, place)
    finally:
        spark.stop()


def _starts(folder: Path) -> Iterator[Figure]:
    """From the start of Python to the first row: the very first time, and with the archive of classes made."""
    path = _filled(folder / "small.db", 100)
    cache = folder / "cache"
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    yield Figure("start to the first row, the first time ever", _start(path, environment), "s")
    # The first program has begun it at its end; this waits for it, or makes it.
    _wait_for_classes(cache)
    times = [_start(path, environment) for _ in range(_TURNS)]
    yield Figure("start to the first row, cold", statistics.median(times), "s", at_most=10)


def _start(path: Path, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", START, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        took = time.perf_counter() - start
    if line != "1\n":
        raise RuntimeError(f"no first row: {line!r}")
    return took


def _wait_for_classes(cache: Path, patience_s: float = 300) -> None:
    end = time.monotonic() + patience_s
    while not list(cache.rglob("classes-*.jsa")):
        if time.monotonic() > end:
            raise RuntimeError("the archive of Spark's classes was not made")
        time.sleep(0.5)


@contextmanager
def _writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        if _answer(program) != "ready":
            raise RuntimeError("the writer did not start")
        yield program


def _answer(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def _publish(program: subprocess.Popen[str], seconds: float) -> float:
    """Events a second, in commits of a hundred, as fast as the writer can."""
    assert program.stdin is not None
    program.stdin.write(f"{seconds}\n")
    program.stdin.flush()
    return float(_answer(program))


def _beside_a_writer(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    from brant.pipeline.checkpoint import Checkpoint
    from brant.pipeline.jobs import archive

    path = _filled(folder / "live.db", 200_000)
    project, lake = _project(folder, path)
    checkpoint = Checkpoint(lake.files, archive.QUERY)
    alone, beside, archived, behind = [], [], [], []
    with _writer(path) as writer:
        for turn in range(_TURNS + 1):
            own = _publish(writer, _TURN_S)
            query = archive.query(spark, project, lake).start(every_s=0)
            query.processAllAvailable()
            first, start = checkpoint.offsets(checkpoint.last_finished())["live"], time.perf_counter()
            with_it = _publish(writer, _TURN_S)
            last, took = checkpoint.offsets(checkpoint.last_finished())["live"], time.perf_counter() - start
            query.stop()
            if turn:  # the first one warms everything up
                alone.append(own)
                beside.append(with_it)
                archived.append((last - first) / took)
                behind.append(_head(path) - last)
    yield Figure("a writer alone, a hundred a commit", statistics.median(alone), "events/s")
    yield Figure("the same beside the archive", statistics.median(beside), "events/s")
    lost = statistics.median(1 - with_it / own for own, with_it in zip(alone, beside, strict=True))
    yield Figure("the writer loses", 100 * lost, "%", at_most=20)
    yield Figure("archive of a live stream", statistics.median(archived), "events/s", at_least=100_000)
    yield Figure("the archive is behind by", statistics.median(behind), "events")


def _head(path: Path) -> int:
    with brant.open(path) as db:
        return int(db.query("SELECT max(offset) AS n FROM _honker_stream")[0]["n"])


def _micro_batches(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    """What one new event costs: the time of a batch of one."""
    from brant.pipeline.jobs import archive

    path = _filled(folder / "trickle.db", 100)
    events = spark.readStream.format("brant").option("startingOffsets", "earliest").load(str(path))
    noop = events.writeStream.format("noop").option("checkpointLocation", str(folder / "noop"))
    sink = events.select("payload").writeStream.format("brant").option("path", str(folder / "sink.db"))
    sink = sink.option("topic", "t").option("checkpointLocation", str(folder / "sink"))
    project, lake = _project(folder, path)
    started: dict[str, Callable[[], StreamingQuery]] = {
        "nothing": noop.start,
        "a Brant stream": sink.start,
        "the archive": lambda: archive.query(spark, project, lake).start(every_s=0),
    }
    with brant.open(path) as db:
        for name, start in started.items():
            query = start()
            query.processAllAvailable()
            for n in range(_TRICKLE):
                db.stream("events").publish({"n": n})
                query.processAllAvailable()
            times = [report["durationMs"]["triggerExecution"] for report in query.recentProgress if _has_rows(report)]
            query.stop()
            yield Figure(f"a micro-batch of one event into {name}", statistics.median(times[-_TRICKLE:]), "ms")


def _has_rows(report: object) -> bool:
    return bool(report["numInputRows"])  # type: ignore[index]


@dataclass
class _Peak:
    java: int = 0
    python: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


def _memory(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    """The largest Java and Python processes below this one while a stream of that size is archived."""
    from brant.pipeline import runner
    from brant.pipeline.jobs import archive

    for events in _SIZES:
        path = _filled(folder / f"of-{events}.db", events)
        project, lake = _project(folder, path)
        with _watched() as peak:
            start = time.perf_counter()
            runner.run([archive.query(spark, project, lake)])
            took = time.perf_counter() - start
        size = f"{events / 1_000_000:g} M events"
        yield Figure(f"archive of {size} at once", events / took, "events/s")
        yield Figure(f"  Java's memory for {size}", peak.java / _MIB, "MiB")
        yield Figure(f"  a Python worker's memory for {size}", peak.python / _MIB, "MiB")


@contextmanager
def _watched() -> Iterator[_Peak]:
    peak = _Peak()

    def watch() -> None:
        while not peak.stop.wait(0.2):
            for process in _below(os.getpid()):
                name, size = _process(process)
                if name == "java":
                    peak.java = max(peak.java, size)
                elif name.startswith("python"):
                    peak.python = max(peak.python, size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        peak.stop.set()
        watcher.join()


def _below(top: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, level = [], [top]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def _process(number: int) -> tuple[str, int]:
    place = Path("/proc") / str(number)
    try:
        return (place / "comm").read_text().strip(), int((place / "statm").read_text().split()[1]) * _PAGE
    except OSError:
        return "", 0


def _project(folder: Path, path: Path) -> tuple[Project, Lake]:
    from brant.pipeline.lake import Lake
    from brant.pipeline.project import Project

    project = Project(folder=str(folder), database=str(path), lake=str(folder / f"lake-{path.stem}"))
    return project, Lake(project.lake, create=True)


def _filled(path: Path, events: int) -> Path:
    note = "a line of text of usual length for an event"
    with brant.open(path) as db:
        for first in range(0, events, _AT_ONCE):
            numbers = range(first, min(events, first + _AT_ONCE))
            db.stream("events").publish_many([{"id": n, "kind": "order", "note": note} for n in numbers])
    return path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = list(shown(Path(name)))
    sys.exit(0 if all(figure.reached for figure in found) else 1)
