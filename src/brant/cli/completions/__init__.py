"""Completion scripts: for each shell a template with its logic, and a module that fills in the commands."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.cli.reference import Argument, Entry

_KINDS = {
    **dict.fromkeys(("QUEUE", "SOURCE", "DESTINATION", "DEST", "Q"), "queue"),
    "FILE": "file",
    "DIR": "directory",
    "COMMAND": "command",
}
HELP_NAMES = ("-h", "--help")
HELP = "show the help of this command"


def kind_of(argument: Argument) -> str:
    """What completes it: a queue, a file, a directory, a command; or it is text, which no shell can know."""
    return _KINDS.get(argument.value, "text")


def is_data(entry: Entry, position: int) -> bool:
    """Whether nothing is an option any more at this place."""
    return entry.words == ("write",) and position > 0


def path_of(entry: Entry) -> str:
    return " ".join(entry.words)


def filled(template: str, **places: list[str]) -> str:
    """The template of that name with lines in the place of each `@NAME@`."""
    with open(os.path.join(os.path.dirname(__file__), template), encoding="utf-8") as file:
        text = file.read()
    for name, lines in places.items():
        text = text.replace(f"@{name.upper()}@", "\n".join(lines))
    return text.rstrip("\n")
