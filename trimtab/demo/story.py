"""The demo from start to verdict: start, fit, warm up, mark good, inject, watch, compare."""

import asyncio
import time
from dataclasses import dataclass

import httpx

from controlplane.clock import SystemClock
from controlplane.db.database import open_database
from controlplane.history.history import History
from controlplane.history.window import EngineWindow
from controlplane.settings import HistorySettings
from engine.faults.names import FAULTS
from trimtab.demo import options as timing
from trimtab.demo.clients import ActionView, ControlClient, EngineClient
from trimtab.demo.narrator import Narrator
from trimtab.demo.options import BIAS_FAULTS, LOAD_FAULTS, DemoOptions
from trimtab.demo.outcome import Seen, Times, conclude
from trimtab.demo.phase import PhaseFigures, measure_phase
from trimtab.demo.processes import Children
from trimtab.demo.report import DemoReport
from trimtab.demo.site import ENGINE_ID, Site
from trimtab.demo.traffic import Plan, Traffic
from trimtab.demo.watch import PROBE_EVERY_S, Watch

ROUTER_BIAS = "router_bias"


class DemoError(Exception):
    """The demo could not be played; one sentence why."""


@dataclass(slots=True)
class Moments:
    """Seconds since the traffic started."""

    good: float = 0.0
    injected: float | None = None
    detected: float | None = None
    acted: float | None = None
    recovered: float | None = None
    after: float = 0.0
    end: float = 0.0


class Story:
    """One run over a site whose two programs are already started."""

    def __init__(
        self, site: Site, options: DemoOptions, children: Children, narrator: Narrator
    ) -> None:
        self._site = site
        self._options = options
        self._narrator = narrator
        self._control = ControlClient(site)
        self._engine = EngineClient(site)
        self._watch = Watch(children, self._control, self._engine, narrator)
        self._traffic = Traffic(site)
        self._history = History(open_database(site.database_url), HistorySettings(), SystemClock())
        self._wall_start = 0.0
        self._moments = Moments()
        self._storm_s: float | None = None

    async def login_link(self) -> str:
        """A one-time login URL for the web UI."""
        return await self._control.login_link()

    async def play(self) -> DemoReport:
        """Everything after the start of the programs; the traffic is stopped at the end."""
        try:
            plan = await self._begin_traffic()
            await self._until_healthy()
            before_probe = await self._mark_good()
            await self._inject(plan)
            await self._after()
            after_probe = await self._watch.probe(self._traffic.now)
            self._moments.end = self._traffic.now()
            return await self._report(plan, before_probe, after_probe)
        finally:
            await self._traffic.stop()
            await self._control.close()
            await self._engine.close()

    async def _begin_traffic(self) -> Plan:
        self._narrator.title("traffic")
        self._narrator.say("Measuring what this machine can serve ...")
        plan = await self._traffic.plan(self._options.trace)
        self._narrator.say(
            f"Trace: {plan.trace}. Fitted to half the measured capacity: arrivals × "
            f"{plan.scaling.rate:.3g}, lengths × {plan.scaling.length:.3g}, which makes "
            f"{plan.rate:.1f} requests a second."
        )
        self._traffic.start(plan)
        self._wall_start = time.time()  # noqa: TID251 - frames carry wall time
        self._narrator.seconds = self._traffic.now
        return plan

    async def _until_healthy(self) -> None:
        self._narrator.say("Warming up until TTFT, TPOT and expert overflow are all met.")
        since: float | None = None

        async def healthy() -> bool | None:
            nonlocal since
            decision = await self._control.newest_decision()
            if decision is None or decision["reason"] != "healthy":
                since = None
                return None
            since = self._traffic.now() if since is None else since
            return True if self._traffic.now() - since >= timing.HEALTHY_FOR_S else None

        if not await self._watch.until(healthy, timing.HEALTHY_S):
            decision = await self._control.newest_decision()
            why = "nothing was decided" if decision is None else decision["explanation"]
            raise DemoError(
                f"the engine did not become healthy within {timing.HEALTHY_S:.0f} s: {why} "
                "Close other programs and try again; this machine may be too busy."
            )
        self._narrator.say("Healthy: all three SLOs are met.")

    async def _mark_good(self) -> float:
        self._moments.good = self._traffic.now()
        is_load = self._options.fault in LOAD_FAULTS
        await self._watch.pass_time(timing.LOAD_BEFORE_S if is_load else timing.BEFORE_S)
        await self._control.mark_good()
        self._narrator.say("The live router bias is marked as the last known good.")
        return await self._watch.probe(self._traffic.now)

    async def _inject(self, plan: Plan) -> None:
        fault = self._options.fault
        self._narrator.title(f"fault: {fault}")
        self._moments.injected = self._traffic.now()
        if fault in BIAS_FAULTS:
            spec = FAULTS[fault]
            await self._engine.inject(fault, {n: p.default for n, p in spec.parameters.items()})
            self._narrator.say(f"Injected: {spec.meaning}. GPU dashboards would show nothing.")
            await self._bias_loop()
        elif fault in LOAD_FAULTS:
            self._storm_s = seconds = self._traffic.storm(fault, plan)
            self._narrator.say(f"Injected for {seconds:.0f} s: {FAULTS[fault].meaning}.")
            await self._load_loop(seconds)
        else:
            self._moments.injected = None
            self._narrator.say("No fault: the governor should leave the bias alone.")
            await self._watch.pass_time(timing.QUIET_S)

    async def _bias_loop(self) -> None:
        last_probe = 0.0

        async def finished() -> ActionView | None:
            nonlocal last_probe
            action = self._rollback()
            if action is None and self._traffic.now() - last_probe > PROBE_EVERY_S:
                last_probe = self._traffic.now()
                await self._watch.probe(self._traffic.now)
            self._note(action)
            final = {"succeeded", "reverted", "failed", "escalated", "superseded"}
            return action if action is not None and action.phase in final else None

        action = await self._watch.until(finished, timing.DETECT_S)
        if action is None:
            self._narrator.say("The loop did not close in time.")
        elif action.phase == "succeeded":
            self._moments.recovered = action.phase_since - self._wall_start

    async def _load_loop(self, seconds: float) -> None:
        start = self._moments.injected or 0.0

        async def relaxed() -> bool | None:
            acts = self._since(start)
            if acts:
                self._note(acts[0])
            if self._traffic.now() - start < seconds:
                return None
            decision = await self._control.newest_decision()
            calm = decision is not None and decision["reason"] == "healthy"
            done = all(a.phase in {"succeeded", "reverted", "superseded", "failed"} for a in acts)
            return True if calm and done and acts and await self._at_baseline() else None

        if await self._watch.until(relaxed, seconds + timing.RELAX_S):
            self._moments.recovered = self._traffic.now()
            self._narrator.say("The storm is over and every knob is back at its baseline.")

    async def _after(self) -> None:
        self._narrator.title("after")
        self._moments.after = self._traffic.now()
        await self._watch.pass_time(timing.AFTER_S)

    def _note(self, action: ActionView | None) -> None:
        if action is None:
            return
        if self._moments.detected is None:
            self._moments.detected = action.created_at - self._wall_start
        if self._moments.acted is None and action.applied_at is not None:
            self._moments.acted = action.applied_at - self._wall_start

    def _rollback(self) -> ActionView | None:
        acts = [a for a in self._since(self._moments.injected or 0.0) if a.knob == ROUTER_BIAS]
        return acts[0] if acts else None

    def _since(self, start: float) -> list[ActionView]:
        return [a for a in self._watch.actions if a.created_at - self._wall_start >= start]

    async def _at_baseline(self) -> bool:
        config = (await self._engine.config()).document.config
        wanted = self._site.start_config
        return (config.chunk_size, config.max_concurrency) == (
            wanted.chunk_size, wanted.max_concurrency,
        )  # fmt: skip

    async def _report(self, plan: Plan, before_probe: float, after_probe: float) -> DemoReport:
        m = self._moments
        start = m.injected if m.injected is not None else m.good + timing.BEFORE_S
        until = m.acted if m.acted is not None else m.after
        during_start = max(start, until - timing.DURING_S)
        if self._storm_s is not None:
            during_start, until = start, start + self._storm_s
        losses = [loss for at, loss in self._watch.probes if start < at <= until]
        healthy = await self._control.newest_decision()
        return conclude(
            Seen(
                fault=self._options.fault,
                times=Times(m.injected, m.detected, m.acted, m.recovered),
                actions=self._since(start),
                relaxed=m.recovered is not None,
                healthy=healthy is not None and healthy["reason"] == "healthy",
                before=self._phase(m.good, start, before_probe),
                during=self._phase(during_start, until, losses[-1] if losses else None),
                after=self._phase(m.after, m.end, after_probe),
                frames=self._frames(),
                whole=self._window(0.0, m.end),
                plan=plan,
            )
        )

    def _phase(self, start: float, end: float, probe: float | None) -> PhaseFigures:
        return measure_phase(self._window(start, end), self._traffic.results(start, end), probe)

    def _window(self, start: float, end: float) -> EngineWindow | None:
        wall = self._wall_start
        return self._history.window(ENGINE_ID, wall + start, wall + end)

    def _frames(self) -> dict[str, int]:
        newest = self._history.newest(ENGINE_ID)
        sent = 0 if newest is None else newest.header.sequence + 1
        end = self._wall_start + self._moments.end + 60.0
        stored = len(self._history.frames(ENGINE_ID, 0.0, end))
        gaps = sum(gap.frames for gap in self._history.gaps(ENGINE_ID, 0.0, end))
        return {"sent": sent, "stored": stored, "gaps": gaps}


async def wait_until_ready(site: Site, children: Children, timeout_s: float) -> None:
    """Return when both programs answer ready.

    Raises:
        ChildFailedError: one of them ended.
        DemoError: they are not ready in time.
    """
    deadline = time.monotonic() + timeout_s
    async with httpx.AsyncClient(timeout=2.0) as http:
        while time.monotonic() < deadline:
            children.check()
            try:
                urls = (site.control_url, site.engine_url)
                answers = [await http.get(f"{url}/readyz") for url in urls]
            except httpx.TransportError:
                answers = []
            if len(answers) == 2 and all(answer.is_success for answer in answers):
                return
            await asyncio.sleep(0.3)
    raise DemoError(f"the engine and the control plane were not ready within {timeout_s:.0f} s")
