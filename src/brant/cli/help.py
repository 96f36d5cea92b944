"""The overview that `brant` and `brant --help` print."""

from __future__ import annotations

from brant.cli.main import COMMANDS, load

GROUPS = {
    "Messages": ("write", "read", "peek", "move", "delete", "broadcast", "watch"),
    "Queues": ("list", "stats", "exists", "alias", "pause", "resume"),
    "Work": ("enqueue", "claim", "ack", "retry", "fail", "heartbeat", "cancel", "run", "dead"),
    "Streams and pub/sub": ("stream", "notify", "listen"),
    "Time and coordination": ("schedule", "lock", "limit"),
    "Care": ("init", "config", "doctor", "backup", "dump", "load", "bench", "completion"),
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
    width = max(map(len, (*COMMANDS, *GLOBAL_OPTIONS)))
    for group, names in GROUPS.items():
        print(f"\n{group}:")
        for name in names:
            print(f"  {name:<{width}}  {load(name).summary}")
    for heading, rows in (("Global options, before the command", GLOBAL_OPTIONS), ("Exit codes", EXIT_CODES)):
        print(f"\n{heading}:")
        for left, right in rows.items():
            print(f"  {left:<{width}}  {right}")
