"""Parsing a command's own words."""

from __future__ import annotations

import argparse

import brant
from brant.arguments import shell_name
from brant.errors import InvalidValue, QueueNameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as an error of Brant; takes no abbreviations."""

    def __init__(self, **settings: object) -> None:
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise InvalidValue(f"{message}; see {self.prog} --help")


def protected(command: str, words: list[str]) -> list[str]:
    """The words with a `--` before what is data, so that argparse leaves it alone, whatever it looks like."""
    if command == "lock" and "--" in words:
        # argparse strips a `--` for each positional argument, also from the middle of the command to run.
        end = words.index("--")
        return [*words[:end], "--", *words[end:]]
    if command != "write":
        return words
    for position, word in enumerate(words):
        if word == "--":
            break
        if not word.startswith("-"):
            message = words[position + 1 :]
            return [*words[: position + 1], *(message if message[:1] == ["--"] else ["--", *message])]
    return words


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
