"""The query API over the history: `/api/v1`."""

from fastapi import APIRouter

from controlplane.history.api import engines, events, latency, layers, loads

router = APIRouter(prefix="/api/v1")
for part in (engines, loads, layers, latency, events):
    router.include_router(part.router)
