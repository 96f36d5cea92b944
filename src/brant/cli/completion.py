"""completion: a script that has a shell complete brant's command line.

Made from the parsers by hand and not by shtab, which would have to be installed and knows no names of queues.
"""

from __future__ import annotations

from brant.cli.command import DONE, Command
from brant.cli.output import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context

SHELLS = ("bash", "zsh", "fish")


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to make it for")


def _completion(context: Context, options: Namespace) -> int:  # noqa: ARG001
    from importlib import import_module

    from brant.cli.reference import command_tree

    put(import_module(f"brant.cli.completions.{options.shell}").script(command_tree()))
    return DONE


COMMANDS = {
    "completion": Command(
        "print a script that completes commands in a shell",
        _arguments,
        _completion,
        description="Print a completion script. For bash, put 'source <(brant completion bash)' into ~/.bashrc; for "
        "zsh, 'source <(brant completion zsh)' into ~/.zshrc, behind compinit; for fish, save it as "
        "~/.config/fish/completions/brant.fish.",
    )
}
