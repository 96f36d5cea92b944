"""A shop in one file: the story that `make demo` tells.

Each part prints what happens and asserts that it did. The last one brings all of it into tables, on Spark.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import brant
from brant import pipeline
from brant.testing import drain_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORKER_THAT_HANGS = """
import sys, time
import brant

db = brant.open(sys.argv[1])
job = db.queue("emails", visibility_timeout_s=1).claim_one("worker-1")
print(f"worker-1 has claimed job {job.id}", flush=True)
time.sleep(3600)
"""


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def title(text: str) -> None:
    print(f"\n{text}", flush=True)


def an_order_and_its_email_commit_together(db: brant.Database, emails: brant.Queue) -> None:
    title("1. An order and the job to mail its receipt are one transaction.")
    with db.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, mailed INTEGER DEFAULT 0)")
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (customer) VALUES (?)", ["alice"])
        job_id = emails.enqueue({"order": 1, "to": "alice@example.com"}, tx=tx)
    say(f"committed: order 1 and job {job_id}")


def a_rollback_drops_both(db: brant.Database, emails: brant.Queue) -> None:
    title("2. The payment of the next order fails: neither the order nor the job is there.")
    try:
        with db.transaction() as tx:
            tx.execute("INSERT INTO orders (customer) VALUES (?)", ["mallory"])
            emails.enqueue({"order": 2, "to": "mallory@example.com"}, tx=tx)
            raise ConnectionError("card declined")
    except ConnectionError as error:
        say(f"rolled back: {error}")
    orders = db.query("SELECT count(*) AS n FROM orders")[0]["n"]
    say(f"orders: {orders}, jobs: {emails.stats().pending}")
    assert (orders, emails.stats().pending) == (1, 1)


def a_killed_worker_loses_nothing(db: brant.Database, emails: brant.Queue) -> None:
    title("3. A worker claims the job and is killed with -9; another one does it, once its lease has run out.")
    command = [sys.executable, "-c", WORKER_THAT_HANGS, db.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        say(worker.stdout.readline().strip())
        worker.kill()
    say("killed worker-1")
    with emails.claim("worker-2") as claims:
        job = next(claims)
        say(f"worker-2 has claimed job {job.id}, attempt {job.attempts}; before: {job.last_error}")
        with job.transaction() as tx:
            tx.execute("UPDATE orders SET mailed = mailed + 1 WHERE id = ?", [job.payload["order"]])
    say("its update of the order and the ack were one commit")
    assert db.query("SELECT mailed FROM orders") == [{"mailed": 1}]


def a_consumer_resumes(db: brant.Database) -> None:
    title("4. A stream keeps its events; a named consumer goes on where it stopped.")
    orders = db.stream("orders")
    orders.publish_many([{"order": number} for number in range(1, 6)])
    with orders.subscribe(consumer="dashboard") as feed:
        seen = [next(feed).payload["order"] for _ in range(4)]
    say(f"saw orders {seen}, and stopped while it handled the last")
    with orders.subscribe(consumer="dashboard") as feed:
        again = [next(feed).payload["order"] for _ in range(2)]
    say(f"went on with orders {again}: what was not finished comes again, nothing is skipped")
    assert again == [4, 5]


async def a_schedule_fires_and_a_listener_hears(db: brant.Database) -> None:
    title("5. A schedule fires every second, and a listener hears of it.")
    scheduler = db.scheduler()
    scheduler.add(name="report", queue="reports", schedule=brant.every_s(1), payload={"kind": "daily"})
    listener = db.listen("reports-done")
    stop = asyncio.Event()
    running = asyncio.create_task(scheduler.run(stop))
    async for job in db.queue("reports").claim("reporter"):
        with job.transaction() as tx:
            tx.notify("reports-done", {"report": job.payload["kind"]})
        break
    notification = await anext(listener)
    say(f"heard on {notification.channel!r}: {notification.payload}")
    stop.set()
    await running
    assert notification.payload == {"report": "daily"}


def webhooks_are_verified_stored_and_handled(db: brant.Database) -> None:
    title("6. A payment provider sends signed webhooks: each counts once, and a forged one does not.")
    with db.transaction() as tx:
        tx.execute("CREATE TABLE payments (id TEXT PRIMARY KEY, amount INTEGER)")
    with brant.Inbox(db) as inbox:
        stripe = inbox.endpoint("payments", provider="stripe", secrets=lambda: SIGNING_SECRET, publish_to="payments")

        @stripe.handle("charge.succeeded")
        def paid(event: brant.inbox.Event, tx: brant.Transaction) -> None:
            charge = event.json()
            tx.execute("INSERT INTO payments VALUES (?, ?)", [charge["id"], charge["amount"]])

        for number in (1, 2, 3):
            say(f"charge {number}: answered {stripe.receive(*signed(number)).status_code}")
        again = stripe.receive(*signed(3))
        say(f"charge 3 again: answered {again.status_code}, a duplicate: {again.duplicate}")
        forged = stripe.receive(*signed(4, secret="guessed"))
        say(f"charge 4 with another signature: answered {forged.status_code}, {forged.reason}")
        drain_tasks(db, "knocker.events")  # in a program: `brant worker app:db`
        handled = len(inbox.list_events(status="handled"))
    total = db.query("SELECT count(*) AS n, sum(amount) AS total FROM payments")[0]
    say(f"handled: {handled}; payments: {total['n']}, together {total['total']} cents")
    assert (again.duplicate, forged.status_code, handled, total) == (True, 401, 3, {"n": 3, "total": 6000})


def signed(number: int, secret: str | None = None) -> tuple[bytes, list[tuple[str, str]]]:
    """A webhook as the provider would send it: its body and headers."""
    body = json.dumps({"id": f"ch_{number}", "type": "charge.succeeded", "amount": number * 1000}).encode()
    now = int(time.time())
    digest = hmac.new((secret or SIGNING_SECRET).encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    return body, [("Content-Type", "application/json"), ("Stripe-Signature", f"t={now},v1={digest}")]


SIGNING_SECRET = "whsec_only_for_this_demo"

PROJECT = """
[pipeline]
database = "shop.db"

[silver.orders]
topic = "orders"
schema = "order BIGINT"
key = "order"

[silver.payments]
topic = "payments"
schema = "event_id BIGINT, event_type STRING, body STRING"
key = "event_id"
sql = "SELECT *, CAST(get_json_object(body, '$.amount') AS BIGINT) AS amount FROM input"

[gold.orders_per_day]
sources = ["silver.orders"]
sql = "SELECT date, count(*) AS orders FROM silver.orders GROUP BY date"
"""
WEBHOOKS = """
    SELECT endpoint, provider, sum(received) AS received, sum(verified) AS verified, sum(invalid) AS invalid,
        sum(duplicates) AS duplicates, sum(handled) AS handled, sum(failed) AS failed
    FROM gold.webhooks GROUP BY endpoint, provider
"""
REJECTS = "SELECT window_start, endpoint, status, reason, rejects FROM gold.webhook_rejects"
LAYERS = """
    SELECT (SELECT count(*) FROM bronze.events) AS events, (SELECT count(*) FROM bronze.deliveries) AS deliveries,
        (SELECT count(*) FROM silver.orders) AS orders, (SELECT sum(amount) FROM silver.payments) AS paid
"""
JOBS = "SELECT queue, enqueued, completed, retries, dead, success_rate FROM gold.queues ORDER BY queue"


def all_of_it_becomes_tables(folder: Path) -> None:
    title("7. The pipeline: events, jobs and webhooks land in bronze, silver and gold, each once.")
    if find_spec("pyspark") is None:
        say("left out: it needs Spark, which pip install 'brant[spark]' brings")
        return
    (folder / "brant-pipeline.toml").write_text(PROJECT)
    project = pipeline.load_project(str(folder / "brant-pipeline.toml"))
    spark = pipeline.session("brant demo")
    try:
        pipeline.run(spark, project)
        for query in pipeline.status(project).queries:
            say(
                f"{query.query}: up to batch {query.batch}" + (f", {query.lag} behind" if query.lag is not None else "")
            )
        (layers,) = print_table("bronze and silver", pipeline.sql(spark, project, LAYERS))
        assert (layers["deliveries"], layers["orders"], layers["paid"]) == (5, 5, 6000)
        print_table("gold.queues", pipeline.sql(spark, project, JOBS))
        (webhooks,) = print_table("gold.webhooks", pipeline.sql(spark, project, WEBHOOKS))
        assert (webhooks["received"], webhooks["invalid"], webhooks["duplicates"], webhooks["handled"]) == (5, 1, 1, 3)
        print_table("gold.webhook_rejects", pipeline.sql(spark, project, REJECTS))
    finally:
        spark.stop()
    page = Path(tempfile.mkdtemp(prefix="brant-demo-")) / "report.html"
    say(f"report: {pipeline.report(project, str(page))}")


def print_table(name: str, frame: DataFrame) -> list[dict[str, object]]:
    """Its rows, which are given back too."""
    rows: list[dict[str, object]] = frame.toArrow().to_pylist()
    say(f"{name}:")
    grid = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    for line in grid:
        say("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, brant.open(Path(folder) / "shop.db") as db:
        print(f"Brant {brant.__version__}: everything below is in one SQLite file.")
        emails = db.queue("emails", visibility_timeout_s=1)
        for queue in ("emails", "reports"):
            db.queue(queue).record_events()
        an_order_and_its_email_commit_together(db, emails)
        a_rollback_drops_both(db, emails)
        a_killed_worker_loses_nothing(db, emails)
        a_consumer_resumes(db)
        asyncio.run(a_schedule_fires_and_a_listener_hears(db))
        webhooks_are_verified_stored_and_handled(db)
        title("What is left in the file:")
        for stats in db.list_queues():
            say(f"queue {stats.queue}: {stats.pending} pending, {stats.processing} processing, {stats.dead} dead")
        say(f"health: {'ok' if db.health().ok else db.health().problems}")
        all_of_it_becomes_tables(Path(folder))


if __name__ == "__main__":
    main()
