"""migrate: everything from one database into another, of whatever kind."""

from __future__ import annotations

import sys

import brant
from brant.cli.command import DONE, Command
from brant.cli.terminal import stderr_is_terminal
from brant.errors import BrantError, InvalidValue
from brant.migrate import migrate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context

_MEMORY = ":memory:"


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a file or an address; it is read only")
    parser.add_argument("destination", metavar="DESTINATION", help="an address or a file, empty or not there yet")


def _migrate(context: Context, options: Namespace) -> int:
    if context.directory is not None or context.file is not None:
        raise InvalidValue("migrate uses the two databases that it is given: leave -d and -f out")
    if _MEMORY in (options.source, options.destination):
        raise InvalidValue(f"{_MEMORY} is gone when the command ends; name a file or an address")
    with brant.open(options.source, create=False) as source, brant.open(options.destination) as destination:
        if source.path == destination.path:
            raise InvalidValue("the source and the destination are the same database; name two")
        try:
            counts = migrate(source, destination, _Shown(quiet=context.quiet or not stderr_is_terminal()))
        except KeyboardInterrupt:
            raise BrantError("interrupted: call it again to go on from here") from None
    details = ", ".join(f"{table}: {count}" for table, count in counts.items() if count)
    context.tell(f"Copied and counted {sum(counts.values())} rows" + (f" ({details})" if details else ""))
    return DONE


class _Shown:
    """One line on stderr, written over again and again."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def __call__(self, table: str, copied: int, of: int) -> None:
        if not self._quiet and of:
            sys.stderr.write(f"\r\x1b[K{table}: {copied} of {of}" + ("\n" if copied == of else ""))


COMMANDS = {
    "migrate": Command(
        "copy everything from one database into another, a file or Postgres",
        _arguments,
        _migrate,
        description="Copy everything from one database into another: from a file to Postgres, or back. Ids, offsets, "
        "leases and schedules are kept, and the rows of each table are counted on both sides. Stop what uses them "
        "first. A copy that was broken off goes on where it was when the command is called again.",
    ),
}
