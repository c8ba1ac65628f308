"""A transport that sends once more, on a fresh connection, what met a connection gone stale.

A server, or a proxy before it, closes idle connections; a pool can only see that it did once the
end has arrived. A request that is written in between fails although the server is well.
"""

from typing import Any

import httpx

CONNECTED = "connection.connect_tcp.started"
"""httpcore's word for a connection that a request could not take from the pool."""
STALE = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""How a connection that the other side has closed shows itself; a time-out is none of them."""


class Reconnecting(httpx.BaseTransport):
    """For clients every request of which may arrive twice: reads, and changes with a key.

    A request is sent at most twice, the second time never on a pooled connection; what fails on a
    connection made for it fails at once.

    Args:
        keep_alive_seconds: how long a connection may lie idle and be used again.
    """

    def __init__(self, keep_alive_seconds: float) -> None:
        context = httpx.create_ssl_context(trust_env=False)
        self._pooled = httpx.HTTPTransport(
            verify=context, trust_env=False,
            limits=httpx.Limits(keepalive_expiry=keep_alive_seconds),
        )  # fmt: skip
        self._fresh = httpx.HTTPTransport(
            verify=context, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, once more where a pooled connection was stale."""
        connected = False

        def trace(event: str, _info: dict[str, Any]) -> None:
            nonlocal connected
            connected = connected or event == CONNECTED

        request.extensions = {**request.extensions, "trace": trace}
        try:
            return self._pooled.handle_request(request)
        except STALE:
            # A body that is read as it is sent is gone by now.
            if connected or not isinstance(request.stream, httpx.ByteStream):
                raise
        return self._fresh.handle_request(request)

    def close(self) -> None:
        """Close the connections."""
        self._pooled.close()
        self._fresh.close()
