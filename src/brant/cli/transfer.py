"""dump, load: everything that is in the database, as lines of JSON."""

from __future__ import annotations

import os
import sys
from contextlib import closing, contextmanager

from brant.cli.command import DONE, Command
from brant.cli.output import require_stdout
from brant.cli.progress import with_progress
from brant.cli.standard_input import is_typed_at_a_terminal, standard_input
from brant.cli.terminal import is_terminal
from brant.errors import BrantError, InvalidValue, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from typing import BinaryIO

    import brant
    from brant.cli.command import Context

_STANDARD = "-"
# A file that is no dump may be one huge line: no more than this is read of it.
_LONGEST_HEADER = 4096


def _dump_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default=_STANDARD,
        help="a new file, made for its owner only (default: standard output)",
    )


def _dump(context: Context, options: Namespace) -> int:
    target = context.target()
    if not target.exists():
        raise StorageError(f"there is no database at {target}; name the one to dump with -f")
    with context.open_target(target) as db, _interrupted_with("the dump is not complete"):
        if options.output == _STANDARD:
            require_stdout()
            _write(db, sys.stdout.buffer, quiet=context.quiet or is_terminal())
            return DONE
        with _new_file(options.output) as file:
            _write(db, file, quiet=context.quiet)
    context.tell(f"Dumped to {options.output}")
    return DONE


def _write(db: brant.Database, file: BinaryIO, *, quiet: bool) -> None:
    with closing(db.dump()) as dumped, closing(with_progress(dumped, "Dumping", quiet=quiet)) as lines:
        file.writelines(line.encode() for line in lines)
    file.flush()


@contextmanager
def _new_file(path: str) -> Iterator[BinaryIO]:
    """A file that was not there, and is not there if it can't be written to its end."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidValue(f"{path} exists already; name a new file") from None
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        os.unlink(path)
        raise


@contextmanager
def _interrupted_with(outcome: str) -> Iterator[None]:
    """Make an error of Ctrl-C, so that a script does not take half the work for done."""
    try:
        yield
    except KeyboardInterrupt:
        raise BrantError(f"interrupted: {outcome}") from None


def _load_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=_STANDARD, help="what dump wrote; left out or -: standard input"
    )


def _load(context: Context, options: Namespace) -> int:
    with (
        _opened(options.file, context.target().path) as file,
        context.open(writes=True) as db,
        closing(with_progress(_lines(file), "Loading", quiet=context.quiet)) as lines,
        _interrupted_with("nothing was loaded"),
    ):
        counts = db.load(lines)
    details = ", ".join(f"{table}: {count}" for table, count in counts.items() if count)
    context.tell(f"Loaded {sum(counts.values())} rows" + (f" ({details})" if details else ""))
    return DONE


@contextmanager
def _opened(path: str, database: str) -> Iterator[BinaryIO]:
    if path == _STANDARD:
        if is_typed_at_a_terminal():
            raise InvalidValue("no dump: name its file, or pipe it in")
        yield standard_input("a dump")
        return
    # To close a database's own file would drop the locks that SQLite holds on it.
    if os.path.exists(database) and os.path.exists(path) and os.path.samefile(path, database):
        raise InvalidValue(f"{path} is the database itself; name a dump")
    with open(path, "rb") as file:
        yield file


def _lines(file: BinaryIO) -> Iterator[bytes]:
    header = file.readline(_LONGEST_HEADER)
    if header:
        yield header
        yield from file


COMMANDS = {
    "dump": Command(
        "write everything that is in the database as lines of JSON",
        _dump_arguments,
        _dump,
        description="Write everything that is in the database as lines of JSON, as of one moment, while others go on "
        "using it. 'brant load' makes the same database of it again.",
    ),
    "load": Command(
        "fill an empty database with what dump wrote",
        _load_arguments,
        _load,
        description="Fill an empty database with what dump wrote: all of it or nothing. Ids, offsets, leases and "
        "schedules are as they were.",
    ),
}
