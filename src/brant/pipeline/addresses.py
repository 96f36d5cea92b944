"""The addresses of Spark's servers: whether somebody listens there, which Spark itself takes minutes to say."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from brant.pipeline.errors import PipelineError

CONNECT_PORT = 15002


def require_connect_server(remote: str) -> None:
    parts = urlsplit(remote)
    try:
        host, port = parts.hostname, parts.port or CONNECT_PORT
    except ValueError:
        host, port = None, CONNECT_PORT
    if parts.scheme != "sc" or not host:
        raise PipelineError(
            f"the address of a Spark Connect server looks like sc://host:{CONNECT_PORT}, not {remote!r}"
        )
    error = _refusal(host, port)
    if error is not None:
        raise PipelineError(f"no Spark Connect server answers at {host}:{port} ({error})") from error


def require_master(master: str) -> None:
    """Of a standalone cluster, `spark://host:port[,host:port]`: one of them is enough. Others are Spark's to judge."""
    if not master.startswith("spark://"):
        return
    errors = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise PipelineError(f"the address of a Spark master looks like spark://host:7077, not {master!r}")
        error = _refusal(host.strip("[]"), int(port))
        if error is None:
            return
        errors.append(error)
    raise PipelineError(f"no Spark master answers at {master} ({errors[-1]})") from errors[-1]


def _refusal(host: str, port: int) -> OSError | None:
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        return error
    return None
