"""`brant pipeline` as users run it: the installed command, in a folder of its own, with a Spark of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import brant
from tests.cli.conftest import COMMAND, clean_environment

PATIENCE_S = 280


def pipeline(folder: Path, *words: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "pipeline", *map(str, words)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean_environment(),
        timeout=PATIENCE_S,
        check=False,
    )


def shop(path: Path, *, orders: int = 20) -> None:
    """A database with orders, one of them no order at all, and a queue with 3 jobs done and 1 dead."""
    with brant.open(path) as db:
        stream = db.stream("orders")
        for number in range(orders):
            stream.publish({"id": number, "total": number * 1.5, "customer": f"c{number % 3}"}, key=str(number))
        stream.publish("no order")
        emails = db.queue("emails")
        emails.record_events()
        for number in range(4):
            emails.enqueue({"n": number})
        for _ in range(4):
            job = emails.claim_one("worker-1")
            assert job is not None
            if job.payload["n"]:
                job.ack()
            else:
                job.fail("SMTP error 421: try later")


PROJECT = """
[pipeline]
database = "app.db"
lake = "lake"

[silver.orders]
topic = "orders"
schema = "id BIGINT, total DOUBLE, customer STRING"

[gold.revenue]
sources = ["silver.orders"]
sql = "SELECT date, customer, sum(total) AS total FROM silver.orders GROUP BY date, customer"
"""
