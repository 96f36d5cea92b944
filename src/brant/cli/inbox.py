"""inbox: webhooks. Only the arguments are here; what runs is imported when it does."""

from __future__ import annotations

from importlib import import_module

from brant.cli.command import Command
from brant.cli.inbox_arguments import OPERATING
from brant.cli.numbers import duration, port, positive_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (_, summary, description, add) in _ACTIONS.items():
        add(actions.add_parser(name, help=summary, description=description or summary))


def _inbox(context: Context, options: Namespace) -> int:
    module = import_module(f"brant.cli.{_ACTIONS[options.action][0]}")
    code: int = module.ACTIONS[options.action](context, options)
    return code


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="MODULE:VAR", nargs="?", help="the module with the endpoints, and the Inbox in it"
    )
    parser.add_argument(
        "--bridge",
        metavar="NAME",
        action="append",
        default=[],
        help="publish what brant bridge sends to /bridge; NAME is the environment variable with the secret; repeated, "
        "any of them counts",
    )
    parser.add_argument(
        "--topic", metavar="T", action="append", default=[], help="with --bridge: only this topic; can be repeated"
    )
    parser.add_argument("--node", metavar="NAME", help="with --bridge: name this database among the nodes")
    parser.add_argument(
        "--keep",
        metavar="S",
        type=duration,
        default=604_800,
        help="with --bridge: delete its requests after so many seconds; the events stay (604800)",
    )
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=port, default=8000, help="the port (8000); 0 takes a free one")
    parser.add_argument(
        "--proxy",
        metavar="NETWORK",
        action="append",
        default=[],
        help="believe X-Forwarded-For of this address or network; can be repeated (default: of none)",
    )
    parser.add_argument(
        "--body-timeout", metavar="S", type=positive_duration, default=30, help="the longest a body may take (30)"
    )
    parser.add_argument(
        "--grace", metavar="S", type=duration, default=10, help="when stopped, let requests go on for this long (10)"
    )


_SERVE = """Import the module, from the working directory first, and receive webhooks for the endpoints that it \
registers, until SIGINT or SIGTERM: then what has begun may finish within --grace. The handlers are run by brant \
worker. With --bridge, the events of other nodes go into this database's streams; that needs neither a module nor a \
worker. Needs pip install 'brant[web]'."""

_ACTIONS = {
    "serve": ("inbox_serving", "receive webhooks over HTTP", _SERVE, _serve),
    **OPERATING,
}

COMMANDS = {
    "inbox": Command(
        "webhooks: received, verified, stored, replayed",
        _arguments,
        _inbox,
    )
}
