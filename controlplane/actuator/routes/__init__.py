"""The JSON API of acting. Viewers read, operators act, administrators change policies."""

from fastapi import APIRouter

from controlplane.actuator.routes import actions, engines, freezes, knob_pins, policies

router = APIRouter(prefix="/api/v1")
for part in (actions, engines, freezes, knob_pins, policies):
    router.include_router(part.router)
