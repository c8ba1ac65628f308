"""Waiting for things to happen, with a deadline, while the programs are kept under watch."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

from trimtab.demo.clients import ActionView, ControlClient, EngineClient
from trimtab.demo.narrator import Narrator
from trimtab.demo.processes import Children

T = TypeVar("T")
POLL_S = 0.5
PROBE_EVERY_S = 3.0

_SPOKEN = {
    "awaiting_approval": "waits for an operator's approval",
    "settling": "is applied on every rank; now it settles",
    "verifying": "is being verified",
    "succeeded": "is verified and kept",
    "reverting": "did not help and is being taken back",
    "reverted": "was taken back",
    "failed": "was refused by the engine",
    "escalated": "needs a human",
    "superseded": "was overtaken by another change",
}


class Watch:
    """Polls both programs; tells of every new action and every change of one."""

    def __init__(
        self, children: Children, control: ControlClient, engine: EngineClient, narrator: Narrator
    ) -> None:
        self.control = control
        self.engine = engine
        self.narrator = narrator
        self._children = children
        self._phases: dict[str, str] = {}
        self.actions: list[ActionView] = []
        self.probes: list[tuple[float, float]] = []
        """Wall time and loss of every probe so far."""

    async def until(self, found: Callable[[], Awaitable[T | None]], timeout_s: float) -> T | None:
        """Poll until `found` gives something; None after `timeout_s`.

        Raises:
            ChildFailedError: a program ended meanwhile.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < deadline:
            self._children.check()
            await self._tell()
            value = await found()
            if value is not None:
                return value
            await asyncio.sleep(POLL_S)
        return None

    async def pass_time(self, seconds: float) -> None:
        """Keep watching for so long."""

        async def never() -> None:
            return None

        await self.until(never, seconds)

    async def probe(self, now: Callable[[], float]) -> float:
        """Probe the answers' quality now, and keep the result."""
        loss = await self.engine.probe()
        self.probes.append((now(), loss))
        return loss

    async def _tell(self) -> None:
        try:
            self.actions = await self.control.actions()
        except httpx.TransportError:
            return  # it may be restarting; a program that ended is noticed above
        for action in self.actions:
            if self._phases.get(action.action_id) == action.phase:
                continue
            is_new = action.action_id not in self._phases
            self._phases[action.action_id] = action.phase
            if is_new:
                self.narrator.say(f"The governor acts: {describe(action)}. {action.reason}")
            spoken = _SPOKEN.get(action.phase)
            if spoken is not None:
                self.narrator.say(f"{(action.knob or 'config').replace('_', ' ')} {spoken}.")


def describe(action: ActionView) -> str:
    """The change of an action in a few words."""
    knob = (action.knob or "config").replace("_", " ")
    verb = "relax" if action.relax else "set"
    return f"{verb} {knob} from {_short(action.before)} to {_short(action.after)}"


def _short(value: str | int | None) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 12 else f"{text[:10]}…"
