"""Holding a warm worker: tasks that keep all its slots busy until the clock starts."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from pathlib import Path

PLACE = "BENCH_PLACE"
REDIS_URL = "BENCH_REDIS_URL"
_LOOK_S = 0.005


def place() -> Path:
    return Path(os.environ[PLACE])


def arrive() -> Path:
    """Tell that a slot is held; gives the file whose coming lets it go."""
    (place() / "held" / uuid.uuid4().hex).touch()
    return place() / "go"


def hold() -> None:
    go = arrive()
    while not go.exists():
        time.sleep(_LOOK_S)


async def hold_async() -> None:
    go = arrive()
    while not go.exists():
        await asyncio.sleep(_LOOK_S)
