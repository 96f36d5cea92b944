"""All commands with their arguments, as a tree: what completions and manuals are made from.

The parsers are the only place where a command's arguments are written down; argparse has no public way to ask them.
"""

from __future__ import annotations

import argparse

from brant.cli.help import GLOBAL_OPTIONS
from brant.cli.main import COMMANDS, load
from brant.cli.parsing import CommandParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FORMS = {argparse.OPTIONAL: (True, False), argparse.ZERO_OR_MORE: (True, True), argparse.ONE_OR_MORE: (False, True)}
_REST = (argparse.PARSER, argparse.REMAINDER)


class Argument:
    """An option, or, when it has no names, what stands at a place of the command line."""

    def __init__(
        self,
        names: tuple[str, ...],
        value: str,
        help: str,  # noqa: A002
        *,
        choices: tuple[str, ...] = (),
        optional: bool = True,
        repeated: bool = False,
    ) -> None:
        self.names = names
        self.value = value
        self.help = help
        self.choices = choices
        self.optional = optional
        self.repeated = repeated


class Entry:
    """A command or a subcommand. The options of one group exclude each other; most are alone in theirs."""

    def __init__(
        self,
        words: tuple[str, ...],
        summary: str,
        description: str,
        *,
        places: Sequence[Argument] = (),
        option_groups: Sequence[Sequence[Argument]] = (),
        subcommands: Sequence[Entry] = (),
    ) -> None:
        self.words = words
        self.summary = summary
        self.description = description
        self.places = list(places)
        self.option_groups = [list(group) for group in option_groups]
        self.subcommands = list(subcommands)

    @property
    def name(self) -> str:
        return " ".join(("brant", *self.words))

    @property
    def options(self) -> list[Argument]:
        return [option for group in self.option_groups for option in group]

    @property
    def usage(self) -> str:
        """The command line, in the notation that everybody knows."""
        parts = [*map(_option_usage, self.option_groups), *map(_place_usage, self.places)]
        if self.subcommands:
            parts.append("|".join(entry.words[-1] for entry in self.subcommands))
        return " ".join([self.name, *parts])

    def walk(self) -> Iterator[Entry]:
        """This one and all below it."""
        yield self
        for subcommand in self.subcommands:
            yield from subcommand.walk()


def command_tree() -> Entry:
    """The whole command line; imports every command."""
    return Entry(
        (),
        "messaging inside an SQLite file",
        "",
        option_groups=[[option] for option in _global_options()],
        subcommands=[_command(name) for name in COMMANDS],
    )


def _global_options() -> Iterator[Argument]:
    """Those that `GLOBAL_OPTIONS` spells as `-d, --dir DIR` or `--status [--json]`."""
    for spelling, text in GLOBAL_OPTIONS.items():
        main, _, companion = spelling.partition(" [")
        words = main.replace(",", "").split()
        names = tuple(word for word in words if word.startswith("-"))
        yield Argument(names, "".join(words[len(names) :]), text)
        if companion:
            yield Argument((companion.removesuffix("]"),), "", f"with {names[-1]}; see there")


def _command(name: str) -> Entry:
    command = load(name)
    parser = CommandParser(prog=f"brant {name}", description=command.description)
    command.arguments(parser)
    return _entry((name,), command.summary, parser)


def _entry(words: tuple[str, ...], summary: str, parser: argparse.ArgumentParser) -> Entry:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    return Entry(
        words,
        summary,
        parser.description or summary,
        places=[_place(action) for action in shown if not action.option_strings and not _has_subcommands(action)],
        option_groups=list(_option_groups(parser, [action for action in shown if action.option_strings])),
        subcommands=[entry for action in shown for entry in _subcommands(words, action)],
    )


def _has_subcommands(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _subcommands(words: tuple[str, ...], action: argparse.Action) -> Iterator[Entry]:
    if isinstance(action, argparse._SubParsersAction):
        for listed in action._choices_actions:
            yield _entry((*words, listed.dest), listed.help or "", action.choices[listed.dest])


def _option_groups(parser: argparse.ArgumentParser, actions: list[argparse.Action]) -> Iterator[list[Argument]]:
    exclusive = {id(member): group for group in parser._mutually_exclusive_groups for member in group._group_actions}
    done: set[int] = set()
    for action in actions:
        group = exclusive.get(id(action))
        members = [action] if group is None else [member for member in group._group_actions if member in actions]
        optional = not (action.required if group is None else group.required)
        if id(action) not in done:
            yield [_option(member, optional=optional) for member in members]
        done.update(map(id, members))


def _option(action: argparse.Action, *, optional: bool) -> Argument:
    value = "" if action.nargs == 0 else _value(action)
    return Argument(tuple(action.option_strings), value, _help(action), choices=_choices(action), optional=optional)


def _place(action: argparse.Action) -> Argument:
    optional, repeated = (False, True) if action.nargs in _REST else _FORMS.get(str(action.nargs), (False, False))
    return Argument((), _value(action), _help(action), choices=_choices(action), optional=optional, repeated=repeated)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(_choices(action)) or action.dest.upper()


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices or ()))


def _help(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


def _option_usage(group: list[Argument]) -> str:
    text = " | ".join(f"{option.names[0]} {option.value}".rstrip() for option in group)
    if group[0].optional:
        return f"[{text}]"
    return f"({text})" if len(group) > 1 else text


def _place_usage(place: Argument) -> str:
    text = f"{place.value}..." if place.repeated else place.value
    return f"[{text}]" if place.optional else text
