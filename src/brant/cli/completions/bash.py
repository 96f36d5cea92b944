"""For bash: a case for each command, that says what it takes."""

from __future__ import annotations

from brant.cli.completions import HELP_NAMES, filled, is_data, kind_of, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from brant.cli.reference import Argument, Entry


def script(root: Entry) -> str:
    return filled("template.bash", commands=[line for entry in root.walk() for line in _case(entry)])


def _case(entry: Entry) -> Iterator[str]:
    names = [name for option in entry.options for name in option.names]
    facts = {
        "commands": [subcommand.words[-1] for subcommand in entry.subcommands],
        "options": [*names, *(name for name in HELP_NAMES if name not in names)],
        "values": [f"{name}={_kind(option)}" for option in entry.options if option.value for name in option.names],
        "places": [kind for position, place in enumerate(entry.places) for kind in _places(entry, position, place)],
    }
    yield f"    '{path_of(entry)}')"
    yield from (f"        {name}='{' '.join(words)}'" for name, words in facts.items() if words)
    yield "        ;;"


def _places(entry: Entry, position: int, place: Argument) -> list[str]:
    kind = "data" if is_data(entry, position) else _kind(place)
    if kind == "command":
        return [kind, "file..."]
    return [f"{kind}..." if place.repeated else kind]


def _kind(argument: Argument) -> str:
    return "|".join(argument.choices) or kind_of(argument)
