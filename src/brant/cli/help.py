"""The overview that `brant` and `brant --help` print."""

from __future__ import annotations

from brant.cli.main import COMMANDS, load

GROUPS = {
    "Messages": ("write", "read", "peek", "move", "delete", "broadcast", "watch"),
    "Queues": ("list", "stats", "exists", "alias", "pause", "resume"),
    "Work": ("enqueue", "claim", "ack", "retry", "fail", "heartbeat", "cancel", "run", "worker", "dead", "batches"),
    "Streams and pub/sub": ("stream", "notify", "listen"),
    "Time and coordination": ("schedule", "lock", "limit"),
    "Webhooks": ("inbox", "bridge"),
    "Data": ("pipeline",),
    "Care": ("top", "init", "config", "doctor", "backup", "dump", "load", "migrate", "bench", "completion"),
}
USAGE = "brant [-d DIR] [-f FILE] [-q] COMMAND [OPTIONS]"
GLOBAL_OPTIONS = {
    "-d, --dir DIR": "the directory of the database (default: the current one)",
    "-f, --file FILE": "the database's file (default: .brant.db)",
    "-q, --quiet": "say nothing but what was asked for",
    "--status [--json]": "how much the database holds",
    "--vacuum [--compact]": "sweep what has expired; with --compact, give room back to the file system",
    "--cleanup": "delete the database, or Brant's tables if it holds others too",
    "--version": "print the version",
    "-h, --help": "this text; 'brant COMMAND --help' for one command",
}
EXIT_CODES = {"0": "done", "1": "error", "2": "nothing to give: empty, no match, not there"}


def print_overview() -> None:
    print(f"usage: {USAGE}\n\nMessaging inside an SQLite file.")
    for group, names in GROUPS.items():
        _print_rows(group, {name: load(name).summary for name in names})
    _print_rows("Global options, before the command", GLOBAL_OPTIONS)
    _print_rows("Exit codes", EXIT_CODES)


def _print_rows(heading: str, rows: dict[str, str]) -> None:
    from textwrap import fill

    print(f"\n{heading}:")
    width = max(map(len, (*COMMANDS, *GLOBAL_OPTIONS)))
    for left, right in rows.items():
        print(fill(right, 80, initial_indent=f"  {left:<{width}}  ", subsequent_indent=" " * (width + 4)))
