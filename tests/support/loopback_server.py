"""Serve an ASGI application on a free loopback port, in a thread, for the length of a test."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The base URL of `app` while the block runs."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="on", ws="none", timeout_keep_alive=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started:
        if time.monotonic() > deadline or not thread.is_alive():
            raise RuntimeError("the loopback server did not start")
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


class Switchboard:
    """One server for many applications: the first path segment names the application."""

    def __init__(self) -> None:
        self.apps: dict[str, Any] = {}
        self._count = 0

    @contextmanager
    def mounted(self, base_url: str, app: Any) -> Iterator[str]:
        """The base URL of `app` while the block runs."""
        self._count += 1
        name = f"app{self._count}"
        self.apps[name] = app
        try:
            yield f"{base_url}/{name}"
        finally:
            del self.apps[name]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        _, name, rest = (scope["path"] + "/").split("/", 2)
        path = "/" + rest.rstrip("/")
        await self.apps[name]({**scope, "path": path, "raw_path": path.encode()}, receive, send)


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
