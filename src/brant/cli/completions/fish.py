"""For fish: a `complete` for each option and place, with the command that it belongs to as its condition."""

from __future__ import annotations

from brant.cli.completions import HELP, HELP_NAMES, filled, is_data, kind_of, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from brant.cli.reference import Argument, Entry

_FOR_VALUES = {
    "queue": "-x -a '(__brant_queues)'",
    "file": "-r -F",
    "directory": "-x -a '(__fish_complete_directories)'",
    "command": "-x",
    "text": "-x",
}
_FOR_PLACES = {
    "queue": "-a '(__brant_queues)'",
    "file": "-F",
    "directory": "-a '(__fish_complete_directories)'",
    "command": "-a '(__fish_complete_command)'",
}


def script(root: Entry) -> str:
    return filled(
        "template.fish",
        valued=[line for entry in root.walk() for line in _valued(entry)],
        names=[" ".join(_quoted(path_of(entry)) for entry in root.walk() if entry.words)],
        completions=[line for entry in root.walk() for line in _completions(entry)],
    )


def _valued(entry: Entry) -> Iterator[str]:
    names = [name for option in entry.options if option.value for name in option.names]
    if names:
        yield f"        case {_quoted(path_of(entry))}"
        yield f"            string split ' ' -- {_quoted(' '.join(names))}"


def _completions(entry: Entry) -> Iterator[str]:
    for subcommand in entry.subcommands:
        yield _at(entry, "", f"-a {subcommand.words[-1]} -d {_quoted(subcommand.summary)}")
    where = " 0" if any(is_data(entry, position) for position in range(len(entry.places))) else ""
    for option in entry.options:
        yield _at(entry, where, f"{_switches(option.names)}{_value(option)} -d {_quoted(option.help)}")
    if entry.words:
        yield _at(entry, where, f"{_switches(HELP_NAMES)} -d {_quoted(HELP)}")
    for position, place in enumerate(entry.places):
        if kind_of(place) == "command":
            yield _at(entry, f" {position}", _FOR_PLACES["command"])
            yield _at(entry, f" {position + 1} ...", _FOR_PLACES["file"])
        elif _offered(place) and not is_data(entry, position):
            yield _at(entry, f" {position} ..." if place.repeated else f" {position}", _offered(place))


def _at(entry: Entry, place: str, offered: str) -> str:
    return f"complete -c brant -n {_quoted(f'__brant_in {_quoted(path_of(entry))}{place}')} {offered}"


def _switches(names: tuple[str, ...]) -> str:
    return " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names)


def _value(option: Argument) -> str:
    if option.choices:
        return f" -x -a {_quoted(' '.join(option.choices))}"
    return f" {_FOR_VALUES[kind_of(option)]}" if option.value else ""


def _offered(place: Argument) -> str:
    return f"-a {_quoted(' '.join(place.choices))}" if place.choices else _FOR_PLACES.get(kind_of(place), "")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
