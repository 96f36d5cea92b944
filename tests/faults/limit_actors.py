"""Workers of a queue with limits, which note any breach that they see in the transaction of their own claim."""

from __future__ import annotations

import random
import time
from pathlib import Path

import brant
from brant.limit import Limit
from tests.faults.actors import Ledger

LEASE_S = 0.4
TABLES = ("CREATE TABLE starts (key TEXT, began REAL, claimed REAL)",)
WHOLE = Limit(max_running=7)
LIMITS = {
    limit.key: limit
    for limit in (
        Limit("one", max_running=1),
        Limit("two", max_running=2),
        Limit("rated", max_starts=5, per_s=0.5),
        Limit("both", max_running=1, max_starts=3, per_s=0.25),
    )
}
# Leases that hold, by what the jobs themselves say: nothing of the tables that Brant decides by.
LEASES = (
    "SELECT payload, count(*) AS leases FROM _honker_live"
    " WHERE queue = 'q' AND state = 'processing' AND claim_expires_at >= ? GROUP BY payload"
)


def open_limited(path: Path) -> brant.Queue:
    return brant.open(path).queue("q", visibility_timeout_s=LEASE_S, max_attempts=1000)


def work_within_limits(path: Path, folder: Path) -> None:
    queue = open_limited(path)
    settled, breaches = Ledger(folder, "settled"), Ledger(folder, "breaches")
    commits = queue.db.update_events()
    worker = queue.db.unique_worker_id()
    while True:
        began = time.time()
        with queue.db.transaction() as tx:
            jobs = queue.claim_batch(worker, random.randint(1, 4), tx=tx)
            now = time.time()
            for row in [*tx.query(LEASES, [now]), {"payload": None, "leases": _leases(tx, now)}]:
                limit = WHOLE if row["payload"] is None else LIMITS.get(row["payload"].strip('"'))
                if limit is not None and limit.max_running is not None and row["leases"] > limit.max_running:
                    breaches.add(f"{row['payload']} {row['leases']}")
            for job in jobs:
                tx.execute("INSERT INTO starts VALUES (?, ?, ?)", [job.payload, began, now])
        for job in jobs:
            time.sleep(random.uniform(0, 0.01))
            if job.ack():
                settled.add(job.id)
        if not jobs:
            commits.wait(min(queue.due_in() or 0.01, 0.2))


def _leases(tx: brant.Transaction, now: float) -> int:
    return sum(row["leases"] for row in tx.query(LEASES, [now]))
