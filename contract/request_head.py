"""A bound on what is read of a request before it can be answered.

uvicorn's parser keeps a head, a trailer and a chunk's extension until they are whole, however long
they are, and nobody has shown a token yet. Both planes serve with this.
"""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""A head that comes in one piece is read: pieces are bounded by the event loop (256 KiB)."""
_REFUSED = b"content-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHead(HttpToolsProtocol):
    """A connection that ends when so many bytes came and nothing could be made of them."""

    _unread = 0
    _has_read = False

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head is too long."""
        self._has_read = False
        super().data_received(data)
        self._unread = 0 if self._has_read else self._unread + len(data)
        if self._unread > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._has_read = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of a body has come."""
        self._has_read = True
        super().on_body(body)

    def _refuse(self) -> None:
        """Answer 431, unless an answer is under way: of a trailer, the request has one."""
        if getattr(self.cycle, "response_complete", True):  # no request came before: None
            self.transport.write(STATUS_LINE[431] + _REFUSED)
        self.transport.close()
