"""`brant inbox` run as a user runs it, beside an inbox that was filled before."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import brant
from tests.cli.conftest import COMMAND, clean_environment
from tests.inbox.tiny import send, tiny, work
from tests.waiting import PATIENCE_S

Ended = subprocess.CompletedProcess[bytes]


def inbox_command(folder: Path, *words: object, stdin: bytes = b"", **environment: str) -> Ended:
    ended = subprocess.run(
        [COMMAND, "inbox", *map(str, words)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        env=clean_environment(**environment),
        timeout=PATIENCE_S,
        check=False,
    )
    assert b"Traceback" not in ended.stderr
    return ended


def objects(folder: Path, *words: object) -> list[dict[str, Any]]:
    ended = inbox_command(folder, *words, "--json")
    assert ended.returncode in (0, 2), ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def at_a_terminal(folder: Path, *words: object, answer: str = "") -> tuple[str, int]:
    """What is on the screen at the end, and the exit code."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "inbox", *map(str, words)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env=clean_environment(TERM="xterm", COLUMNS="120"),
    )
    os.close(terminal)
    os.write(screen, answer.encode())
    shown = b""
    with suppress(OSError):  # how Linux says that the other side is gone
        while part := os.read(screen, 1000):
            shown += part
    os.close(screen)
    return shown.decode(), process.wait(PATIENCE_S)


def assert_refused(ended: Ended, why: str) -> None:
    assert (ended.returncode, ended.stdout) == (1, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert why in line


def filled(folder: Path) -> dict[str, int]:
    """Two events handled, one dead, one received, and a refused delivery; gives the events' ids."""
    with brant.open(folder / ".brant.db") as db, brant.Inbox(db) as inbox:
        orders, news = tiny(inbox, "orders"), tiny(inbox, "news")
        orders.handle("paid")(lambda event, tx: None)
        ids = {"paid": send(orders, "e1", "paid"), "again": send(orders, "e2", "paid")}
        ids["dead"] = send(orders, "e3", "unknown")
        work(inbox)
        ids["waiting"] = send(news, "e4", "story")
        assert orders.receive(b"\xff forged").status_code == 401
    return ids


def statuses(folder: Path) -> dict[int, str]:
    with brant.open(folder / ".brant.db") as db, brant.Inbox(db) as inbox:
        return {event.id: event.status for event in inbox.list_events()}


def audits(folder: Path) -> list[tuple[str, int]]:
    with brant.open(folder / ".brant.db") as db, brant.Inbox(db) as inbox:
        return [(audit.action, audit.events) for audit in inbox.list_audits()]
