"""`make bench`: one table of Brant, the floor, their ratio and the peers; exit code 1 when a ratio is too low."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import brant
from bench import inbox, peers, pipeline, pipeline_live, pipeline_postgres, pipeline_sink, postgres, shell, tasks, wake
from bench.floor import Floor
from bench.measure import Case, Outcome, Work, run

_BACKLOGS: dict[str, Callable[[brant.Queue], object]] = {
    "100k ready": lambda queue: queue.enqueue_many(range(100_000), priority=-1),
    "100k delayed, higher priority": lambda queue: queue.enqueue_many(range(100_000), delay=86_400, priority=9),
    "10k in flight": lambda queue: (
        queue.enqueue_many(range(10_000), priority=9),
        queue.claim_batch("other", 10_000, lease_s=86_400),
    ),
    "100k dead": lambda queue: (
        queue.enqueue_many(range(100_000), priority=9, expires=-1),
        queue.sweep_expired(),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns that each contender gets (default: 7)")
    parser.add_argument("--count", type=int, default=2000, help="operations a turn (default: 2000)")
    parser.add_argument("--only", default="", help="run only the cases whose name holds this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        latencies = inbox.Latencies()
        with (
            tasks.cases(Path(folder), options.count * 5 // 2) as task_cases,
            inbox.cases(Path(folder), options.count, latencies) as inbox_cases,
            postgres.cases(options.count) as postgres_cases,
        ):
            outcomes = [
                run(case, options.rounds)
                for case in (*cases(Path(folder), options.count), *task_cases, *inbox_cases, *postgres_cases)
                if options.only in case.name
            ]
        print(table(outcomes))
        if lines := latencies.lines():
            print("", *lines, sep="\n")
        if any("at once" in outcome.name for outcome in outcomes):
            print("", *tasks.verdicts(outcomes), "", *tasks.drains(), "", *tasks.notes(), sep="\n")
        if options.only in "wake":
            times = wake.measure(Path(folder) / "wake.db")
            p50, p99 = f"p50 {times.p50_ms:.2f} ms (goal: 0.3)", f"p99 {times.p99_ms:.2f} ms (goal: 2)"
            print(f"\nwake-up across processes: {p50}, {p99}")
            print(f"waiting costs {times.idle_cpu_percent:.3f} % of a core (goal: 0.1)")
        live = [*pipeline_live.shown(Path(folder))] if options.only in pipeline_live.NAME else []
    is_reached = all(outcome.reached for outcome in outcomes) and all(figure.reached for figure in live)
    return 0 if is_reached else 1


def cases(folder: Path, count: int) -> list[Case]:
    db = brant.open(folder / "brant.db")
    queue = db.queue("q")
    floor = Floor(folder / "floor.db")
    found = peers.available(folder)

    def rivals(name: str) -> dict[str, Work]:
        return {peer: works[name] for peer, works in found.items() if name in works}

    # Each claim case takes what the enqueue case before it has put, so that all sides work on queues of one length.
    batched = count // 128 * 128 or 128
    return [
        Case("enqueue, one a transaction", count, partial(enqueue, queue), floor.enqueue, 0.7, rivals("enqueue")),
        Case("claim + ack, one at a time", count, partial(claim, queue), floor.claim_and_ack, 0.7, rivals("claim 1")),
        Case(
            "enqueue_many, 100 a transaction",
            batched * 200,
            partial(enqueue_hundreds, queue),
            floor.enqueue_hundreds,
            0.7,
            rivals("enqueue_many"),
        ),
        *(
            Case(
                f"claim + ack, batches of {size}",
                batched * 10,
                partial(claim, queue, batch=size),
                partial(floor.claim_and_ack, batch=size),
                0.7,
                rivals(f"claim {size}"),
            )
            for size in (32, 128)
        ),
        replay_case(db, floor, folder),
        *flat_cases(folder, count // 4),
        *shell.cases(folder),
        *pipeline.cases(folder),
        *pipeline_postgres.cases(),
        *pipeline_sink.cases(folder),
    ]


def enqueue(queue: brant.Queue, count: int) -> None:
    for _ in range(count):
        queue.enqueue({"n": 1})


def enqueue_hundreds(queue: brant.Queue, count: int) -> None:
    for _ in range(count // 100):
        queue.enqueue_many([{"n": 1}] * 100)


def claim(queue: brant.Queue, count: int, batch: int = 1) -> None:
    for _ in range(count // batch):
        if batch == 1:
            job = queue.claim_one("w")
            assert job is not None
            job.ack()
        else:
            queue.ack_batch([job.id for job in queue.claim_batch("w", batch)], "w")


def replay_case(db: brant.Database, floor: Floor, folder: Path) -> Case:
    events = 50_000
    db.stream("t").publish_many([{"n": 1}] * events)
    with brant.open(folder / "floor.db") as other:
        other.stream("t").publish_many([{"n": 1}] * events)

    def replay(count: int) -> None:
        with db.stream("t").subscribe() as feed:
            for _, _ in zip(range(count), feed, strict=False):
                pass

    return Case("stream replay, events", events, replay, floor.replay, 0.6)


def flat_cases(folder: Path, count: int) -> list[Case]:
    """Claims beside a backlog, against claims from an empty queue: here the floor is Brant itself."""
    found = []
    empty = brant.open(folder / "empty.db").queue("q")
    for number, (name, fill) in enumerate(_BACKLOGS.items()):
        beside = brant.open(folder / f"backlog-{number}.db").queue("q")
        fill(beside)
        found.append(
            Case(
                f"claim + ack beside {name}",
                count,
                partial(enqueue_and_claim, beside),
                partial(enqueue_and_claim, empty),
                0.67,
            )
        )
    return found


def enqueue_and_claim(queue: brant.Queue, count: int) -> None:
    for _ in range(count):
        queue.enqueue({"n": 1})
        job = queue.claim_one("w")
        assert job is not None
        job.ack()


def table(outcomes: list[Outcome]) -> str:
    names = sorted({name for outcome in outcomes for name in outcome.rates} - {"brant", "floor"})
    lines = [["work", "brant /s", "floor /s", "ratio", "goal", *(f"{name} /s" for name in names)]]
    for outcome in outcomes:
        rates = [f"{outcome.rates[name]:,.0f}" if name in outcome.rates else "" for name in names]
        mark = "" if outcome.reached else " !"
        lines.append(
            [
                outcome.name,
                f"{outcome.rates['brant']:,.0f}",
                f"{outcome.rates['floor']:,.0f}",
                f"{outcome.ratio:.2f}{mark}",
                f"{outcome.least}",
                *rates,
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
