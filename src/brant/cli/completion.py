"""completion: a script that has a shell complete brant's command line.

Made here from the parsers and not by shtab, which would have to be installed and knows no names of queues.
"""

from __future__ import annotations

import os

from brant.cli.command import DONE, Command
from brant.cli.output import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from brant.cli.command import Context
    from brant.cli.reference import Argument, Entry

_KINDS = {
    **dict.fromkeys(("QUEUE", "SOURCE", "DESTINATION", "DEST", "Q"), "queue"),
    "FILE": "file",
    "DIR": "directory",
    "COMMAND": "command",
}
_HELP = "show the help of this command"


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell to make it for")


def _completion(context: Context, options: Namespace) -> int:  # noqa: ARG001
    put(script(options.shell).rstrip("\n"))
    return DONE


def script(shell: str) -> str:
    """The completion script for a shell."""
    from brant.cli.reference import command_tree

    text = _template(f"completion.{shell}")
    for place, lines in _SCRIPTS[shell](command_tree()).items():
        text = text.replace(f"@{place}@", "\n".join(lines))
    return text


def _template(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "templates", name), encoding="utf-8") as file:
        return file.read()


def _kind(argument: Argument) -> str:
    """What completes it: the choices, one of `_KINDS`, or nothing that a shell could know."""
    return "|".join(argument.choices) or _KINDS.get(argument.value, "text")


def _is_data(entry: Entry, position: int) -> bool:
    """Whether options are no longer options at this place."""
    return entry.words == ("write",) and position > 0


def _path(entry: Entry) -> str:
    return " ".join(entry.words)


def _names(entry: Entry) -> list[str]:
    return [subcommand.words[-1] for subcommand in entry.subcommands]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# bash


def _bash(root: Entry) -> dict[str, list[str]]:
    return {"COMMANDS": [line for entry in root.walk() for line in _bash_case(entry)]}


def _bash_case(entry: Entry) -> Iterator[str]:
    options = [name for option in entry.options for name in option.names]
    values = [f"{name}={_kind(option)}" for option in entry.options if option.value for name in option.names]
    places = [kind for position, place in enumerate(entry.places) for kind in _bash_places(entry, position, place)]
    facts = {
        "commands": _names(entry),
        "options": options if "--help" in options else [*options, "-h", "--help"],
        "values": values,
        "places": places,
    }
    yield f"    {_quoted(_path(entry))})"
    yield from (f"        {name}={_quoted(' '.join(words))}" for name, words in facts.items() if words)
    yield "        ;;"


def _bash_places(entry: Entry, position: int, place: Argument) -> list[str]:
    kind = "data" if _is_data(entry, position) else _kind(place)
    if kind == "command":
        return [kind, "file..."]
    return [f"{kind}..." if place.repeated else kind]


# zsh

_ZSH_ACTIONS = {"queue": "_brant_queues", "file": "_files", "directory": "_files -/", "command": "_normal", "text": ""}


def _zsh(root: Entry) -> dict[str, list[str]]:
    return {
        "FUNCTIONS": ["\n\n".join(_zsh_function(entry) for entry in root.walk() if entry.words)],
        "COMMANDS": [f"        {line}" for line in _zsh_commands(root)],
        "OPTIONS": [f"        {line} \\" for line in _zsh_options(root)],
    }


def _zsh_function(entry: Entry) -> str:
    name = "_".join(("_brant", *entry.words))
    options = [*_zsh_options(entry), _zsh_option(("-h", "--help"), "", _HELP, ("-h", "--help"))]
    if not entry.subcommands:
        # What is run has options of its own, and so has data.
        early = any(_kind(place) == "command" or _is_data(entry, at) for at, place in enumerate(entry.places))
        places = [_zsh_place(number, place) for number, place in enumerate(entry.places, start=1)]
        start = "_arguments -s -A '-*'" if early else "_arguments -s"
        return f"{name}() {{\n" + " \\\n        ".join([f"    {start}", *options, *places]) + "\n}"
    listed = "\n".join(f"        {line}" for line in _zsh_commands(entry))
    dispatch = f"'*:: :{{ (($+functions[{name}_$words[1]])) && {name}_$words[1] }}'"
    specs = ["    _arguments -A '-*'", *options, "'1: :{ _describe command commands }'", dispatch]
    return f"{name}() {{\n    local -a commands=(\n{listed}\n    )\n" + " \\\n        ".join(specs) + "\n}"


def _zsh_commands(entry: Entry) -> list[str]:
    return [_quoted(f"{subcommand.words[-1]}:{subcommand.summary}") for subcommand in entry.subcommands]


def _zsh_options(entry: Entry) -> list[str]:
    return [
        _zsh_option(option.names, _zsh_value(option), option.help, tuple(name for each in group for name in each.names))
        for group in entry.option_groups
        for option in group
    ]


def _zsh_option(names: tuple[str, ...], value: str, text: str, excluded: tuple[str, ...]) -> str:
    """A spec for each name; all but one of those that exclude each other go when one is there."""
    rest = _quoted(f"[{_zsh_escaped(text)}]{value}")
    marked = [name + (("=" if name.startswith("--") else "+") if value else "") for name in names]
    spelled = marked[0] if len(marked) == 1 else "{" + ",".join(marked) + "}"
    return f"{_quoted('(' + ' '.join(excluded) + ')')}{spelled}{rest}"


def _zsh_value(option: Argument) -> str:
    return f":{_zsh_escaped(option.value)}:{_zsh_action(option)}" if option.value else ""


def _zsh_place(number: int, place: Argument) -> str:
    if _kind(place) == "command":
        return _quoted(f"*:::{place.value}:_normal")
    at = "*" if place.repeated else f"{number}:" if place.optional else str(number)
    return _quoted(f"{at}:{_zsh_escaped(place.value)}:{_zsh_action(place)}")


def _zsh_action(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else _ZSH_ACTIONS[_kind(argument)]


def _zsh_escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\[]:" else character for character in text)


# fish

_FISH_VALUES = {"queue": "-x -a '(__brant_queues)'", "file": "-r -F", "directory": "-x -a '(__fish_complete_directories)'"}
_FISH_PLACES = {"queue": "-a '(__brant_queues)'", "file": "-F"}


def _fish(root: Entry) -> dict[str, list[str]]:
    below = [entry for entry in root.walk() if entry.words]
    return {
        "VALUED": [line for entry in root.walk() for line in _fish_valued(entry)],
        "NAMES": [" ".join(_fish_quoted(_path(entry)) for entry in below)],
        "COMPLETIONS": [line for entry in root.walk() for line in _fish_entry(entry)],
    }


def _fish_valued(entry: Entry) -> Iterator[str]:
    names = [name for option in entry.options if option.value for name in option.names]
    if names:
        yield f"        case {_fish_quoted(_path(entry))}"
        yield f"            string split ' ' -- {_fish_quoted(' '.join(names))}"


def _fish_entry(entry: Entry) -> Iterator[str]:
    here = f"complete -c brant -n {_fish_quoted(f'__brant_in {_fish_quoted(_path(entry))}')}"
    for subcommand in entry.subcommands:
        yield f"{here} -a {subcommand.words[-1]} -d {_fish_quoted(subcommand.summary)}"
    for option in entry.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        values = f" {_fish_completes(option, _FISH_VALUES) or '-x'}" if option.value else ""
        yield f"{here} {names}{values} -d {_fish_quoted(option.help)}"
    if entry.words:
        yield f"{here} -s h -l help -d {_fish_quoted(_HELP)}"
    for position, place in enumerate(entry.places):
        at = f"__brant_in {_fish_quoted(_path(entry))} {position}" + (" ..." if place.repeated else "")
        completes = _fish_completes(place, _FISH_PLACES)
        if completes:
            yield f"complete -c brant -n {_fish_quoted(at)} {completes}"


def _fish_completes(argument: Argument, by_kind: dict[str, str]) -> str:
    if argument.choices:
        return f"-x -a {_fish_quoted(' '.join(argument.choices))}"
    kind = _kind(argument)
    return "-x -a '(__fish_complete_subcommand)'" if kind == "command" else by_kind.get(kind, "")


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
COMMANDS = {
    "completion": Command(
        "print a script that completes brant's commands in a shell",
        _arguments,
        _completion,
        description="Print a completion script. For bash: source <(brant completion bash) in ~/.bashrc. For zsh: the same "
        "in ~/.zshrc, behind compinit. For fish: brant completion fish > ~/.config/fish/completions/brant.fish",
    )
}
