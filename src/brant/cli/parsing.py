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
    from typing import Any, NoReturn


# Before a word that argparse must not take for an option or for the end of options. No argument can hold a NUL.
_MARK = "\0"
# Their last argument is a command to run, and takes each word as it is.
_RUN_OTHERS = ("run", "lock")

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
        left = [word for word in left if word != "--"]  # it has ended the options, which is all it is for
        late = [word for word in left if not _is_option(word)]
        if len(late) == 1 and late == left[-1:] and getattr(found, "payload", "") is None:
            found.payload = _unmarked(late[0])
            return found, left[:-1]
        return found, left

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if isinstance(action, argparse._SubParsersAction):
            # Its own parser needs to know which of the other words are data.
            name, *words = arg_strings[1:] if arg_strings[0] == "--" else arg_strings
            arg_strings = [_unmarked(name), *words]
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        is_for_others = isinstance(action, argparse._SubParsersAction)
        return super()._get_value(action, arg_string if is_for_others else _unmarked(arg_string))

    def error(self, message: str) -> NoReturn:
        raise InvalidValue(f"{_unmarked(message)}; see {self.prog} --help")


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
    if command == "write":
        return _with_marked_message(words)
    if command in _RUN_OTHERS or "--" not in words:
        return words
    # argparse strips a `--` for each positional argument, also one that is data.
    behind = words.index("--") + 1
    return [*words[:behind], *(_MARK + word for word in words[behind:])]


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


def _unmarked(text: str) -> str:
    return text.replace(_MARK, "")


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
