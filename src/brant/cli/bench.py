"""bench: what this machine can do, on a file of its own."""

from __future__ import annotations

import os

import brant
from brant.cli.command import DONE, Command
from brant.cli.numbers import count
from brant.cli.output import put_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from brant.cli.command import Context


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--count", metavar="N", type=count, default=2000, help="operations of each kind (default: 2000)"
    )
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _bench(context: Context, options: Namespace) -> int:
    import tempfile

    target = context.target()
    if target.is_server:
        raise brant.InvalidValue("bench measures the disk under a file; name one by -f, or a folder by -d")
    with (
        tempfile.TemporaryDirectory(dir=_folder_beside(target.path), prefix=".brant-bench-") as place,
        brant.open(os.path.join(place, "bench.db"), synchronous=context.settings.sync_mode) as db,
    ):
        rates = _rates(db.queue("bench"), db.stream("bench"), options.count)
    if options.json:
        put_json(rates)
        return DONE
    from brant.cli.terminal import table

    table([[work, f"{rate:,}"] for work, rate in rates.items()], ["work", "a second"])
    return DONE


def _folder_beside(path: str) -> str:
    """On the disk of the database that would be used, whose own folder may not be there yet."""
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _rates(queue: brant.Queue, stream: brant.Stream, times: int) -> dict[str, int]:
    def claim_and_ack() -> None:
        job = queue.claim_one("bench")
        if job is not None:
            job.ack()

    return {
        "write, one a transaction": _rate(times, lambda: queue.write("x" * 100)),
        "read, one a transaction": _rate(times, queue.read),
        "enqueue, one a transaction": _rate(times, lambda: queue.enqueue({"n": 1})),
        "claim and ack, one at a time": _rate(times, claim_and_ack),
        "publish, one a transaction": _rate(times, lambda: stream.publish({"n": 1})),
    }


def _rate(times: int, operation: Callable[[], object]) -> int:
    import time

    start = time.perf_counter()
    for _ in range(times):
        operation()
    return round(times / (time.perf_counter() - start))


COMMANDS = {
    "bench": Command(
        "measure what this machine can do",
        _arguments,
        _bench,
        description="Measure reads and writes on a temporary database beside the one that would be used.",
    )
}
