"""A network that takes everything and passes nothing on, as some do when a machine is gone or a table was lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def socket_of(address: str) -> str:
    """Where the server listens, or nothing if it does so elsewhere."""
    folder = parse_qs(urlsplit(address).query).get("host", [""])[0]
    return f"{folder}/.s.PGSQL.5432" if Path(folder).is_dir() else ""


class Network:
    """A port of this machine behind which the server is."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: list[_Connection] = []
        self._is_silent = False
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_connections(self) -> int:
        """Those that there are carry nothing any more, and nobody is told; new ones do. Tells how many."""
        with self._lock:
            for connection in self._connections:
                connection.is_silent = True
            return sum(connection.is_open for connection in self._connections)

    def fall_silent(self) -> None:
        """The same, and for new ones too."""
        self._is_silent = True
        self.lose_connections()

    def come_back(self) -> None:
        """For new connections; those of before stay lost."""
        self._is_silent = False

    def close(self) -> None:
        for each in (self._listener, *(end for connection in self._connections for end in connection.ends)):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                with self._lock:
                    self._connections.append(_Connection(client, server, self._is_silent))


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket, is_silent: bool) -> None:
        self.ends = (client, server)
        self.is_silent = is_silent
        self.is_open = True
        for source, target in (self.ends, self.ends[::-1]):
            threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.is_silent:
                    target.sendall(data)
            if not self.is_silent:
                target.shutdown(socket.SHUT_RDWR)
        self.is_open = False


@contextmanager
def network_before(address: str) -> Iterator[tuple[Network, str]]:
    """The network, and the address of the same database through it."""
    parts = urlsplit(address)
    network = Network(socket_of(address))
    try:
        yield network, f"{parts.scheme}://{parts.netloc}127.0.0.1:{network.port}{parts.path}"
    finally:
        network.close()
