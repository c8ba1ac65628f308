"""Security headers on every answer: a strict policy for content, no sniffing, no framing."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
        "connect-src 'self'", "font-src 'self'", "form-action 'self'", "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)  # fmt: skip
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]


class SecurityHeaders:
    """ASGI middleware that adds them; answers that say nothing of caching are not cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and complete the answer's headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                said = {name.lower() for name, _ in headers}
                message["headers"] = [*headers, *(pair for pair in _RAW if pair[0] not in said)]
            await send(message)

        await self._app(scope, receive, complete)
