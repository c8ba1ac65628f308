"""`/healthz`, `/readyz`, `/metrics`."""

from collections.abc import Callable

from fastapi import APIRouter, Response

from engine.errors import NotReadyError
from engine.server.readiness import Readiness


def health_routes(readiness: Readiness) -> APIRouter:
    """Open to all: they tell whether, and in one sentence why not."""
    router = APIRouter()

    @router.get("/healthz")
    async def alive() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz")
    async def ready() -> dict[str, str]:
        if readiness.reason is not None:
            raise NotReadyError(readiness.reason)
        return {"status": "ready"}

    return router


def metrics_routes(render: Callable[[], tuple[bytes, str]]) -> APIRouter:
    """What `render` gives: the exposition and its content type."""
    router = APIRouter()

    @router.get("/metrics")
    def metrics() -> Response:
        text, content_type = render()
        return Response(text, headers={"Content-Type": content_type})

    return router
