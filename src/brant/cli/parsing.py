"""Parsing a command's own words."""

from __future__ import annotations

import argparse
import os
from functools import cache

import brant
from brant.arguments import shell_name
from brant.errors import InvalidValue, QueueNameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


# Before a word that argparse must not take for an option or for the end of options. No argument can hold a NUL.
_MARK = "\0"

# Brant speaks English: to look for a translation of each of argparse's texts takes a twentieth of `brant write`.
vars(argparse)["_"] = str


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as an error of Brant; takes no abbreviations."""

    def __init__(self, **settings: object) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormatter, **settings)  # type: ignore[arg-type]

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Takes a payload behind an option too, where argparse has settled that there is none."""
        found, left = super().parse_known_args(args, namespace)
        late = left[1:] if left[:1] == ["--"] else [word for word in left if not _is_option(word)]
        if len(late) == 1 and late == left[-1:] and getattr(found, "payload", "") is None:
            found.payload = late[0]
            return found, [word for word in left[:-1] if word != "--"]
        return found, left

    def error(self, message: str) -> NoReturn:
        raise InvalidValue(f"{message}; see {self.prog} --help")


class _HelpFormatter(argparse.HelpFormatter):
    """Asks for the terminal's width by itself, since argparse makes one of these for each argument and imports much."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@cache
def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        return 80


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not word[1].isdigit()


def protected(command: str, words: list[str]) -> list[str]:
    """The words with what is data protected, so that argparse leaves it alone, whatever it looks like."""
    if command == "lock" and "--" in words:
        # argparse strips a `--` for each positional argument, also from the middle of the command to run.
        end = words.index("--")
        return [*words[:end], "--", *words[end:]]
    return _with_marked_message(words) if command == "write" else words


def _with_marked_message(words: list[str]) -> list[str]:
    """The words of `write`: options, the queue's name, and then text, whatever it looks like."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        position += 1
    ended = words[position : position + 1] == ["--"]
    position += ended
    head, data = words[: position + 1], words[position + 1 :]
    if data[:1] == ["--"] and not ended:
        del data[0]
    if not data:
        return head
    return [*head, _MARK + data[0], *(["--", *data[1:]] if len(data) > 1 else [])]


def unmarked(word: str) -> str:
    return word.removeprefix(_MARK)


def queue_of(db: brant.Database, name: str) -> brant.Queue:
    """The queue of that name or `@alias`; a name that no shell should make must exist already."""
    resolved = db.resolve_alias(name)
    try:
        shell_name(resolved)
    except QueueNameError:
        if resolved not in db.queue_names():
            raise
    return db.queue(resolved)


def add_queue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="name of the queue, or @alias")


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("-t", "--timestamps", action="store_true", help="print the id and a tab before each message")


def add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--after", metavar="T", help="only messages with a larger id, or written later")
    parser.add_argument("--before", metavar="T", help="only messages with a smaller id, or written earlier")
