"""inbox serve: the endpoints of a Python module, over HTTP."""

from __future__ import annotations

from brant.cli.command import DONE
from brant.cli.output import complain
from brant.errors import BrantError, InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable
    from socket import socket

    import uvicorn

    from brant.cli.command import Context
    from brant.inbox import Inbox
    from brant.inbox.asgi import Receive, Scope, Send

    App = Callable[[Scope, Receive, Send], Awaitable[None]]

_BACKLOG = 1024
_TIDY_EVERY_S = 3600
# What is within it is answered by the inbox, with a status that says what is wrong; the rest by the server, with 400.
_LARGEST_HEAD = 256 * 1024


def _serve(context: Context, options: Namespace) -> int:
    _check(context, options)
    inbox = _own_inbox(context) if options.target is None else _inbox(options.target)
    with inbox.db, inbox:
        keep = _bridged(inbox, options) if options.bridge else None
        _require_endpoints(inbox, options.target)
        server = _server(inbox, options)
        with _listening(options.host, options.port) as listener:
            code = _run(server, listener, lambda: context.tell(_banner(inbox, listener)), keep)
    if code == DONE:
        context.tell("brant inbox: stopped cleanly")
    return code


def _check(context: Context, options: Namespace) -> None:
    if options.target is None and not options.bridge:
        raise InvalidValue("name the module with the endpoints, as in app:inbox, or give --bridge")
    if options.target is not None and (context.directory is not None or context.file is not None):
        raise InvalidValue(f"the inbox uses the database that {options.target} opens: leave -d and -f out")
    if not options.bridge and (options.topic or options.node is not None):
        raise InvalidValue("--topic and --node belong to --bridge")


def _own_inbox(context: Context) -> Inbox:
    from brant.inbox import Inbox

    db = context.open(writes=True)
    try:
        return Inbox(db)
    except BaseException:
        db.close()
        raise


def _bridged(inbox: Inbox, options: Namespace) -> Callable[[], object]:
    """Have the inbox publish what bridges send; gives what deletes the requests that are old."""
    from brant.inbox import RetentionPolicy, forget_bridged, receive_bridge

    secrets = [f"env:{name}" for name in options.bridge]
    endpoint = receive_bridge(inbox, secrets, topics=options.topic, node=options.node)
    # The identities too: which events are known, the bridge remembers by itself.
    policy = RetentionPolicy(endpoint.name, {"handled": options.keep}, orphans_s=options.keep, keys_s=options.keep)

    def keep() -> None:
        inbox.retain(policy)
        forget_bridged(inbox.db, options.keep)

    return keep


def _inbox(target: str) -> Inbox:
    from brant.inbox import Inbox
    from brant.worker.target import load

    if ":" not in target:
        raise InvalidValue(f"{target!r} does not name an Inbox: type MODULE:VAR, as in app:inbox")
    inbox = load(target)
    if not isinstance(inbox, Inbox):
        raise InvalidValue(f"{target} is no Inbox but of type {type(inbox).__name__}: name what brant.Inbox(db) gave")
    return inbox


def _require_endpoints(inbox: Inbox, target: str) -> None:
    if not inbox.endpoints:
        raise BrantError(
            f"no endpoints: {target.partition(':')[0]} calls {target.partition(':')[2]}.endpoint() nowhere"
        )


def _server(inbox: Inbox, options: Namespace) -> uvicorn.Server:
    try:
        import uvicorn
    except ImportError:
        raise BrantError("brant inbox serve needs uvicorn: pip install 'brant[web]'") from None
    largest = max(endpoint.settings.max_header_bytes for endpoint in inbox.endpoints.values())
    config = uvicorn.Config(
        _ending_quietly(inbox.asgi(proxies=options.proxy, body_timeout_s=options.body_timeout, own_loop=True)),
        http="h11",  # the faster parser takes 15 % less time for a request, and has no bound on its head
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # whoever sends nonsense must not fill the log
        access_log=False,  # addresses may hold secrets
        proxy_headers=False,  # the inbox believes the proxies that were named, and no other
        server_header=False,
        timeout_graceful_shutdown=options.grace,
        h11_max_incomplete_event_size=max(_LARGEST_HEAD, 4 * largest),
    )
    return uvicorn.Server(config)


def _ending_quietly(app: App) -> App:
    """The server would print where each request was cut off that has outlasted the grace; all have been answered."""
    import asyncio

    async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            pass

    return quiet


def _listening(host: str, port: int) -> socket:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BrantError(f"can't listen on {host} port {port}: {error.strerror or error}") from None


def _banner(inbox: Inbox, listener: socket) -> str:
    import os

    host, port = listener.getsockname()[:2]
    where = f"[{host}]" if ":" in host else host
    paths = ",".join(endpoint.path for endpoint in inbox.endpoints.values())
    return f"brant inbox: pid={os.getpid()} url=http://{where}:{port} paths={paths}"


def _run(
    server: uvicorn.Server, listener: socket, announce: Callable[[], None], keep: Callable[[], object] | None
) -> int:
    import asyncio

    from brant.cli.failing import exit_code_for

    try:
        asyncio.run(_until_stopped(server, listener, announce, keep))
    except BaseException as error:
        return exit_code_for(error, as_json=False)
    return DONE


async def _until_stopped(
    server: uvicorn.Server, listener: socket, announce: Callable[[], None], keep: Callable[[], object] | None
) -> None:
    import asyncio
    import signal
    from contextlib import nullcontext

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    # Not the server's own, which would raise the signal again when all is done.
    server.capture_signals = nullcontext  # type: ignore[assignment, method-assign]
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    announce()  # whoever reads it may stop this at once
    caring = None if keep is None else asyncio.create_task(_keep_tidy(keep))
    await server.serve([listener])
    if caring is not None:
        caring.cancel()


async def _keep_tidy(keep: Callable[[], object]) -> None:
    import asyncio

    while True:
        try:
            await asyncio.to_thread(keep)
        except BrantError as error:
            complain(f"brant inbox: warning: old requests were not deleted: {error}")
        await asyncio.sleep(_TIDY_EVERY_S)


ACTIONS = {"serve": _serve}
