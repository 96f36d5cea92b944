"""For zsh: a function for each command, that calls `_arguments`."""

from __future__ import annotations

from brant.cli.completions import HELP, HELP_NAMES, filled, is_data, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from brant.cli.reference import Argument, Entry

_ACTIONS = {"queue": "_brant_queues", "file": "_files", "directory": "_files -/"}
_OPTIONS_FIRST = "-A '-*'"
_NEXT_LINE = " \\\n        "


def script(root: Entry) -> str:
    return filled(
        "template.zsh",
        functions=["\n\n".join(_function(entry) for entry in root.walk() if entry.words)],
        commands=[f"        {line}" for line in _commands(root)],
        options=[f"        {line} \\" for line in _options(root)],
    )


def _function(entry: Entry) -> str:
    name = "_".join(("_brant", *entry.words))
    body = _group_body(name, entry) if entry.subcommands else _command_body(entry)
    return f"{name}() {{\n{body}\n}}"


def _command_body(entry: Entry) -> str:
    takes_data = any(is_data(entry, position) for position in range(len(entry.places)))
    start = f"    _arguments -s -S {_OPTIONS_FIRST}" if takes_data else "    _arguments -s -S"
    places = [_place(number, place) for number, place in enumerate(entry.places, start=1)]
    return _NEXT_LINE.join([start, *_options(entry), _help(), *places])


def _group_body(name: str, entry: Entry) -> str:
    listed = "".join(f"        {line}\n" for line in _commands(entry))
    below = f"'*:: :{{ (($+functions[{name}_$words[1]])) && {name}_$words[1] }}'"
    specs = [f"    _arguments {_OPTIONS_FIRST}", _help(), "'1: :{ _describe command known }'", below]
    return f"    local -a known=(\n{listed}    )\n{_NEXT_LINE.join(specs)}"


def _commands(entry: Entry) -> list[str]:
    return [_quoted(f"{subcommand.words[-1]}:{subcommand.summary}") for subcommand in entry.subcommands]


def _options(entry: Entry) -> list[str]:
    return [_option(option, group) for group in entry.option_groups for option in group]


def _option(option: Argument, group: Sequence[Argument]) -> str:
    value = f":{_escaped(option.value)}:{_action(option)}" if option.value else ""
    return _spec(option.names, [name for each in group for name in each.names], option.help, value)


def _help() -> str:
    return _spec(HELP_NAMES, HELP_NAMES, HELP, "")


def _spec(names: Sequence[str], excluded: Sequence[str], text: str, value: str) -> str:
    """What `_arguments` calls an optspec: once one of the excluded is there, none of them is offered."""
    marks = {True: "=", False: "+"} if value else {True: "", False: ""}
    spelled = ",".join(name + marks[name.startswith("--")] for name in names)
    braced = f"{{{spelled}}}" if len(names) > 1 else spelled
    return _quoted(f"({' '.join(excluded)})") + braced + _quoted(f"[{_escaped(text)}]{value}")


def _place(number: int, place: Argument) -> str:
    if kind_of(place) == "command":
        return _quoted(f"*:::{place.value}: _brant_command_to_run")
    at = "*" if place.repeated else f"{number}:" if place.optional else str(number)
    return _quoted(f"{at}:{_escaped(place.value)}:{_action(place)}")


def _action(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else _ACTIONS.get(kind_of(argument), "")


def _escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\[]:" else character for character in text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
