"""A shop in one file: the story that `make demo` tells.

Each part prints what happens and asserts that it did. The last one brings all of it into tables, on Spark.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import brant
from brant import pipeline

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


PROJECT = """
[pipeline]
database = "shop.db"

[silver.orders]
topic = "orders"
schema = "order BIGINT"
key = "order"

[gold.orders_per_day]
sources = ["silver.orders"]
sql = "SELECT date, count(*) AS orders FROM silver.orders GROUP BY date"
"""
JOBS = "SELECT queue, enqueued, completed, retries, dead, success_rate FROM gold.queues ORDER BY queue"


def events_and_jobs_become_tables(folder: Path) -> None:
    title("6. The pipeline: events and jobs land in bronze, silver and gold, each once.")
    if find_spec("pyspark") is None:
        say("left out: it needs Spark, which pip install 'brant[spark]' brings")
        return
    (folder / "brant-pipeline.toml").write_text(PROJECT)
    project = pipeline.load_project(str(folder / "brant-pipeline.toml"))
    spark = pipeline.session("brant demo")
    try:
        pipeline.run(spark, project)
        for query in pipeline.status(project).queries:
            say(f"{query.query}: up to batch {query.batch}, {query.lag} events behind")
        orders = pipeline.sql(spark, project, "SELECT sum(orders) AS n FROM gold.orders_per_day").collect()[0]["n"]
        say(f"orders in silver and gold: {orders}")
        assert orders == 5
        print_table(pipeline.sql(spark, project, JOBS).toArrow().to_pylist())
    finally:
        spark.stop()
    page = Path(tempfile.mkdtemp(prefix="brant-demo-")) / "report.html"
    say(f"report: {pipeline.report(project, str(page))}")


def print_table(rows: list[dict[str, object]]) -> None:
    grid = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    for line in grid:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


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
        title("What is left in the file:")
        for stats in db.list_queues():
            say(f"queue {stats.queue}: {stats.pending} pending, {stats.processing} processing, {stats.dead} dead")
        say(f"health: {'ok' if db.health().ok else db.health().problems}")
        events_and_jobs_become_tables(Path(folder))


if __name__ == "__main__":
    main()
