"""inbox sign: a test request that the endpoint of a provider accepts."""

from __future__ import annotations

import os
import shlex
import time
from urllib.parse import SplitResult, urlsplit

from brant.cli.command import DONE
from brant.cli.output import put, put_json, write
from brant.cli.standard_input import all_input, is_typed_at_a_terminal
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from brant.cli.command import Context
    from brant.inbox import Provider, Request

# The longest word that Linux lets a shell pass on is 128 KiB.
_LONGEST_WORD = 120_000
_FACTS = {"id": "event_id", "type": "event_type"}


def _sign(context: Context, options: Namespace) -> int:
    url = _checked_url(options.url)
    provider = _provider(options)
    facts = {name: getattr(options, option) for option, name in _FACTS.items() if getattr(options, option) is not None}
    for name, value in facts.items():
        if not value.isprintable():
            raise InvalidValue(f"the {name} must be printable text, since it becomes a header")
    secret = _secret(options.secret_env)
    body = _body(context, options)
    try:
        request = provider.sign(body, secret, time.time(), path=url.path or "/", query=url.query, **facts)
    except (InvalidValue, UnicodeError) as error:
        raise InvalidValue(f"{provider.name} can't sign this: {error}") from None
    request = _with_content_type(request)
    if options.raw:
        write(_raw(request, url))
    elif options.json:
        put_json(_fields(request, options.url))
    else:
        put(_curl(request, options.url))
    return DONE


def _checked_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
    except ValueError:
        url = urlsplit("")
    if url.scheme not in ("http", "https") or not url.netloc or not text.isascii() or not text.isprintable():
        raise InvalidValue(f"{text!r} is no address to send to; use one like http://127.0.0.1:8000/hooks/github")
    return url


def _provider(options: Namespace) -> Provider:
    from brant.inbox import providers

    known = providers.class_of(options.provider)
    given: dict[str, object] = {}
    if "url" in known.required:
        given["url"] = options.url.partition("?")[0]
    for word in options.option:
        name, equals, value = word.partition("=")
        if not equals:
            raise InvalidValue(f"--option {word} has no value; write it as NAME=VALUE")
        given[name] = _typed(value, known.options.get(name))
    return known(**given)


def _typed(text: str, default: object) -> object:
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text, text)
    if isinstance(default, (int, float)):
        try:
            return float(text)
        except ValueError:
            return text  # the provider says what is wrong with it
    return text


def _secret(variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise InvalidValue(f"the environment variable {variable} is not set; put the secret into it")
    if not value.strip():
        raise InvalidValue(f"the environment variable {variable} is empty; put the secret into it")
    return value


def _body(context: Context, options: Namespace) -> bytes:
    if options.payload is None and is_typed_at_a_terminal():
        raise InvalidValue("no body: type it as the last argument, or pipe it in")
    if options.payload in (None, "-"):
        limit = context.settings.max_message_size
        data = all_input("a body", limit)
        if len(data) > limit:
            raise InvalidValue(f"the body exceeds the maximum size of {limit} bytes")
        return data
    return os.fsencode(options.payload)


def _with_content_type(request: Request) -> Request:
    # Left out, curl would say that it is a form.
    if request.headers.all("content-type"):
        return request
    is_json = bool(request.document() or request.items())
    return request.adding(("content-type", "application/json" if is_json else "application/octet-stream"))


def _curl(request: Request, url: str) -> str:
    if b"\0" in request.body or len(request.body) > _LONGEST_WORD:
        raise InvalidValue("the body is too long for a command line, or holds a NUL: use --raw or --json")
    lines = [f"curl --request {shlex.quote(request.method)} {shlex.quote(url)}"]
    lines += [f"--header {shlex.quote(f'{name}: {value}')}" for name, value in request.headers]
    lines.append(f"--data-raw {shlex.quote(os.fsdecode(request.body))}")
    return " \\\n  ".join(lines)


def _raw(request: Request, url: SplitResult) -> bytes:
    place = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = [f"{request.method} {place} HTTP/1.1", f"host: {url.netloc.rpartition('@')[2]}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    lines += [f"content-length: {len(request.body)}", "connection: close", "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + request.body


def _fields(request: Request, url: str) -> dict[str, object]:
    fields: dict[str, object] = {
        "method": request.method,
        "url": url,
        "headers": [list(pair) for pair in request.headers],
    }
    try:
        return {**fields, "body": request.body.decode()}
    except UnicodeDecodeError:
        import base64

        return {**fields, "body_base64": base64.b64encode(request.body).decode()}


ACTIONS = {"sign": _sign}
