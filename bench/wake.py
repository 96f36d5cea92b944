"""How long a waiter in another process takes to hear of a commit, and what waiting costs."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import brant

_LISTENER = """
import sys, time, brant
db = brant.open(sys.argv[1])
listener = db.listen("wake")
print("ready", flush=True)
for notification in listener:
    print(time.time() - notification.payload, flush=True)
"""


@dataclass
class WakeTimes:
    p50_ms: float
    p99_ms: float
    idle_cpu_percent: float


def measure(path: Path, samples: int = 300, idle_s: float = 3.0) -> WakeTimes:
    command = [sys.executable, "-c", _LISTENER, str(path)]
    delays = []
    with brant.open(path) as db, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        listener.stdout.readline()
        for _ in range(samples):
            time.sleep(0.005)
            db.notify("wake", time.time())
            delays.append(float(listener.stdout.readline()) * 1000)
        listener.kill()
    cuts = statistics.quantiles(delays, n=100)
    return WakeTimes(cuts[49], cuts[98], _idle_cpu(path, idle_s))


def _idle_cpu(path: Path, idle_s: float) -> float:
    with brant.open(path) as db:
        events = db.update_events()
        events.wait(0.5)
        before = resource.getrusage(resource.RUSAGE_SELF)
        events.wait(idle_s)
        after = resource.getrusage(resource.RUSAGE_SELF)
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return used / idle_s * 100
