"""The front door: global options, then one command, whose module alone is imported."""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module

import brant
from brant.cli.command import DONE, Command, Context
from brant.cli.stopping import Terminated
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

COMMANDS = {
    "write": "messages",
    "read": "messages",
    "peek": "messages",
    "move": "messages",
    "delete": "messages",
    "broadcast": "messages",
    "list": "queues",
    "stats": "queues",
    "exists": "queues",
    "alias": "queues",
    "batches": "queues",
    "pause": "queues",
    "resume": "queues",
    "watch": "watch",
    "enqueue": "jobs",
    "claim": "jobs",
    "ack": "jobs",
    "retry": "jobs",
    "fail": "jobs",
    "heartbeat": "jobs",
    "cancel": "jobs",
    "dead": "jobs",
    "run": "runner",
    "worker": "worker",
    "stream": "streams",
    "notify": "streams",
    "listen": "streams",
    "schedule": "schedules",
    "lock": "coordination",
    "limit": "coordination",
    "inbox": "inbox",
    "bridge": "bridge",
    "pipeline": "pipeline",
    "top": "top",
    "init": "care",
    "doctor": "care",
    "config": "care",
    "backup": "care",
    "dump": "transfer",
    "load": "transfer",
    "migrate": "migrate",
    "bench": "bench",
    "completion": "completion",
}
# Those that the library may log something for, and that keep no log: the others need not import logging.
_WAITING = {"watch", "run", "listen", "lock", "stream tail", "schedule run"}
_ACTIONS = ("--cleanup", "--vacuum", "--status")
_FLAGS = {"-q": "quiet", "--quiet": "quiet", "--compact": "compact", "-h": "help", "--help": "help", "--json": "json"}
_VALUES = {"-d": "directory", "--dir": "directory", "-f": "file", "--file": "file"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    context = Context()
    try:
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # as it is during the start
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, _terminate)
        code = _run(context, words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BaseException as error:
        from brant.cli.failing import exit_code_for

        return exit_code_for(error, as_json=context.as_json)
    finally:
        # The interpreter's last collection need not walk through all that was imported.
        gc.freeze()


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one is not to be waited for
    raise Terminated


def _run(context: Context, words: list[str]) -> int:
    options = GlobalOptions(words)
    if options.version:
        print(f"brant {brant.__version__}")
        return DONE
    context.directory, context.file, context.quiet = options.directory, options.file, options.quiet
    if options.action is not None:
        from brant.cli.maintenance import run

        context.as_json = options.json
        return run(context, options)
    if options.help or options.command is None:
        from brant.cli.help import print_overview

        print_overview()
        return DONE
    return _run_command(context, options.command, options.rest)


def _run_command(context: Context, name: str, words: list[str]) -> int:
    from brant.cli.parsing import CommandParser, protected

    command: Command = load(name)
    parser = CommandParser(prog=f"brant {name}", description=command.description)
    command.arguments(parser)
    try:
        options = parser.parse_args(protected(name, words))
    except SystemExit:  # --help, and it is printed
        return DONE
    context.as_json = getattr(options, "json", False)
    if _waits(name, options):
        from brant.cli.library_warnings import say_warnings

        say_warnings(quiet=context.quiet)
    return command.run(context, options)


def _waits(name: str, options: Namespace) -> bool:
    words = {name, f"{name} {getattr(options, 'action', '')}"}
    return not words.isdisjoint(_WAITING) or bool(getattr(options, "wait", 0))


def load(name: str) -> Command:
    """A command by name; imports its module only."""
    commands: dict[str, Command] = import_module(f"brant.cli.{COMMANDS[name]}").COMMANDS
    return commands[name]


class GlobalOptions:
    """What stands before the command. Read by hand: what follows the command is the command's own, also when it looks
    like a global option, and a value is never taken for a command."""

    def __init__(self, words: list[str]) -> None:
        self.directory: str | None = None
        self.file: str | None = None
        self.quiet = self.compact = self.help = self.json = self.version = False
        self.command: str | None = None
        self.rest: list[str] = []
        actions: list[str] = []
        position = 0
        while position < len(words) and self.command is None:
            word = words[position]
            name, equals, value = word.partition("=")
            position += 1
            if name in _VALUES:
                if not equals:
                    value = words[position] if position < len(words) else ""
                    position += 1
                if not value or value.startswith("-"):
                    raise InvalidValue(f"option {name} requires an argument")
                setattr(self, _VALUES[name], value)
            elif word in _FLAGS:
                setattr(self, _FLAGS[word], True)
            elif word == "--version":
                self.version = True
            elif word in _ACTIONS:
                actions.append(word)
            elif word in COMMANDS:
                self.command, self.rest = word, words[position:]
            else:
                raise InvalidValue(_unknown(word))
        self.action = _the_action(actions, self)


def _the_action(actions: list[str], options: GlobalOptions) -> str | None:
    if "--cleanup" in actions:
        return "--cleanup"
    if options.compact and "--vacuum" not in actions:
        raise InvalidValue("--compact can only be used with --vacuum")
    if len(actions) > 1:
        raise InvalidValue(f"{actions[0]} and {actions[1]} can't be combined")
    if actions and options.command is not None:
        raise InvalidValue(f"{actions[0]} can't be combined with a command")
    if options.json and actions != ["--status"]:
        raise InvalidValue("--json belongs behind the command")
    return actions[0] if actions else None


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    if word.startswith("-"):
        return f"unrecognized option {word}; see brant --help"
    near = get_close_matches(word, COMMANDS, 1)
    return f"unknown command {word!r}" + (f"; did you mean {near[0]!r}?" if near else "; see brant --help")
