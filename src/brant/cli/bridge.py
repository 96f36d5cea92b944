"""bridge: streams of this database, sent to another one."""

from __future__ import annotations

from brant.cli.command import DONE, FAILED, NOTHING, Command
from brant.cli.numbers import count, positive_duration, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    import brant
    from brant.cli.command import Context
    from brant.inbox import Bridge, Trouble


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="the streams to send")
    parser.add_argument("--to", metavar="URL", required=True, help="the endpoint of the other node")
    parser.add_argument(
        "--secret-env",
        metavar="NAME",
        action="append",
        required=True,
        help="the environment variable that holds the secret (whsec_...); repeated, all of them sign",
    )
    parser.add_argument(
        "--as", dest="name", metavar="NAME", help="the consumer that knows how far it is (default: made from the URL)"
    )
    parser.add_argument("--node", metavar="NAME", help="name this database among the nodes (default: a made-up name)")
    parser.add_argument(
        "--from", dest="start", metavar="N", type=whole_number, default=0, help="leave out events up to this offset"
    )
    parser.add_argument("--once", action="store_true", help="send what is there, and end; exit code 2 for nothing")
    parser.add_argument(
        "--forward", action="store_true", help="also send events that came over a bridge (default: only this node's)"
    )
    parser.add_argument(
        "--allow",
        metavar="NETWORK",
        action="append",
        default=[],
        help="an address or network that is not public and may be sent to; can be repeated",
    )
    parser.add_argument("--allow-http", action="store_true", help="let the URL be http, which everybody can read")
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust instead of the system's")
    parser.add_argument(
        "--timeout", metavar="S", type=positive_duration, default=20, help="the longest a request may take (20)"
    )
    parser.add_argument("--batch", metavar="N", type=count, default=500, help="at most N events in a request (500)")


def _bridge(context: Context, options: Namespace) -> int:
    with context.open() as db:
        bridge = _made(db, context, options)
        return _send(context, bridge) if options.once else _run(context, bridge)


def _made(db: brant.Database, context: Context, options: Namespace) -> Bridge:
    from brant.inbox import Bridge

    return Bridge(
        db,
        options.topics,
        options.to,
        [f"env:{name}" for name in options.secret_env],
        name=options.name,
        node=options.node,
        start_at=options.start,
        forward=options.forward,
        batch=options.batch,
        on_trouble=lambda trouble: _tell(context, trouble),
        timeout_s=options.timeout,
        allow=options.allow,
        allow_http=options.allow_http,
        tls=_trust(options.ca),
    )


def _trust(file: str | None) -> object:
    if file is None:
        return None
    import ssl

    from brant.errors import InvalidValue

    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidValue(f"--ca {file}: {error.strerror or error}") from None


def _send(context: Context, bridge: Bridge) -> int:
    from brant.cli.output import complain
    from brant.inbox import BridgeError

    try:
        sent = bridge.send()
    except BridgeError as error:
        complain(f"brant: error: {error}; nothing is lost, the next run goes on from there")
        return FAILED
    finally:
        bridge.close()
    context.tell(f"Sent {sent} events")
    return DONE if sent else NOTHING


def _run(context: Context, bridge: Bridge) -> int:
    import os

    from brant.cli.stopping import StopSignals

    StopSignals(bridge.stop)
    topics = ",".join(bridge.topics)
    context.tell(f"brant bridge: pid={os.getpid()} node={bridge.node} as={bridge.name} topics={topics}")
    bridge.run()
    context.tell("brant bridge: stopped cleanly")
    return DONE


def _tell(context: Context, trouble: Trouble) -> None:
    context.tell(f"brant bridge: waiting topic={trouble.topic} retry_in={trouble.wait_s:.0f} error={trouble.reason}")


_BRIDGE = """Send the events of streams to another node, until SIGINT or SIGTERM: what is there, and what comes. Over \
there, brant inbox serve --bridge publishes them to streams of the same names. Each event arrives once, and in order; \
how far it is, a named consumer remembers. What came over a bridge does not go back. Only https to public addresses is \
sent to, unless allowed."""

COMMANDS = {"bridge": Command("send streams to another node", _arguments, _bridge, description=_BRIDGE)}
