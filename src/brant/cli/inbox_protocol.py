"""HTTP for `inbox serve`: uvicorn's protocol on a parser in C, with a bound on what it holds of a request's head.

The parser keeps a line until it ends, however long it is, and uvicorn has no limit for it. Its other protocol, on h11,
has one, and takes several times as long for a request.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

_REFUSAL = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"


def bounded(most: int) -> type[HttpToolsProtocol]:
    """A protocol that takes no more than so many bytes that belong to no body."""

    class Bounded(HttpToolsProtocol):
        _unused = 0
        _is_in_head = False

        def data_received(self, data: bytes) -> None:
            self._unused += len(data)
            super().data_received(data)
            if self._unused > most and not self.transport.is_closing():
                self._refuse()

        def _refuse(self) -> None:
            """A head without end; or a line without end between two pieces of a body, or behind it."""
            if self._is_in_head:
                reason = b"the headers are too large"
                self.transport.write(STATUS_LINE[431] + _REFUSAL % (len(reason), reason))
            self.transport.close()

        def on_message_begin(self) -> None:
            self._is_in_head = True
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            # What comes behind the body is none: whoever checked the headers has done so before.
            if self._is_in_head:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._is_in_head = False
            self._unused = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unused = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unused = 0
            super().on_message_complete()

    return Bounded
