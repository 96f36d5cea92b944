"""What the library logs while a command waits: said as a warning of the command's own, or not at all."""

from __future__ import annotations

import logging

from brant.cli.output import complain

# What goes wrong with watching is mended, or raised in the command that waits, which says it.
_WATCHER = "brant.watcher"


def say_warnings(*, quiet: bool) -> None:
    """Without a handler of its own, Python would print the bare texts."""
    logging.getLogger("brant").addHandler(logging.NullHandler() if quiet else _Warnings(logging.WARNING))


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.name != _WATCHER:
            complain(f"brant: warning: {record.getMessage()}")
