"""`trimtab bench simulation`: what a simulated fleet costs. Every engine here is simulated.

In process: one DeepSeek-V3 group (58 × 256, all layers) at ticks of 10 s, against real time, alone
and with detectors, SLOs and decisions behind it. Over HTTP: 64 such engines at one frame a second
for ten minutes, and the control plane that stores and judges them, in processes of their own.
"""

import tempfile
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from controlplane.policy.builtin import DEFAULT
from controlplane.policy.decide import decide
from engine.simulation import scenario as scenarios
from engine.simulation.run import ScenarioRun
from engine.simulation.scenario import Scenario
from trimtab.bench.figure import Figure
from trimtab.bench.plane import (
    ProcessCost,
    RunningPlane,
    frames_missing,
    frames_stored,
    wait_until_ready,
)
from trimtab.bench.stream import wait_until
from trimtab.demo.processes import Children, free_port
from trimtab.simulated.history import SimulatedHistory
from trimtab.simulated.site import FleetRequest, FleetSite

PRESET = "deepseek-v3"
TICK_SECONDS = 10.0
WARM_TICKS, TICKS = 70, 300
ENGINES, GROUP_SIZE = 64, 4
FLEET_SECONDS = 600
SETTLE_SECONDS = 30
_END_SECONDS = 60.0


def run() -> list[Figure]:
    """In process, then the fleet; about twelve minutes."""
    return [*speeds(), *fleet(FLEET_SECONDS)]


def speeds() -> list[Figure]:
    """Scenario seconds a second of one processor."""
    scenario = whole_model()
    alone = ScenarioRun.of(scenario).frames()
    governed = SimulatedHistory.of(scenario, DEFAULT).snapshots()

    def ratio(steps: Iterable[object]) -> float:
        return TICKS * TICK_SECONDS / _processor_seconds(steps)

    for warming in (alone, governed):
        list(islice(warming, WARM_TICKS))
    return [
        Figure("simulation.real_time_ratio", ratio(islice(alone, TICKS)), "ratio", 1000.0, ">=",
               TICKS, against="one group of 58 × 256 at 10 s ticks, simulated"),
        Figure("simulation.governed_real_time_ratio",
               ratio(decide(seen, DEFAULT) for seen in islice(governed, TICKS)), "ratio", n=TICKS,
               against="the same, with detectors, SLOs and decisions at each tick"),
    ]  # fmt: skip


def _processor_seconds(steps: Iterable[object]) -> float:
    began = time.process_time()
    for _ in steps:
        pass
    return time.process_time() - began


def whole_model() -> Scenario:
    """Quiet traffic on every layer of the preset, at production ticks."""
    scenario = scenarios.load("quiet-normal")
    engine = scenario.engine.model_copy(update={"preset": PRESET, "layers": None})
    return scenario.model_copy(update={"engine": engine, "tick_seconds": TICK_SECONDS})


def fleet(seconds: int) -> list[Figure]:
    """64 engines into a control plane over HTTP; both processes' share of the processor."""
    with tempfile.TemporaryDirectory() as name, Children(Path(name) / "logs") as children:
        port, control_port = free_port(), free_port()
        site = _site(Path(name), port, control_port)
        url = site.request.control_url
        control = children.start_trimtab("control", ["serve", "--config", str(site.control_file)])
        names = [member.settings.engine_id for member in site.members()]
        plane = RunningPlane(
            control_port, control.process.pid,
            {name: site.tokens[f"{name}.telemetry"] for name in names}, site.tokens["admin"],
        )  # fmt: skip
        wait_until_ready(plane, children.check)
        simulated = children.start_trimtab(
            "fleet",
            ["simulate", "--preset", PRESET, "--engines", str(ENGINES), "--port",
             str(port), "--control-url", url, "--folder", name,
             "--duration", str(seconds + SETTLE_SECONDS)],
        )  # fmt: skip
        costs = [plane, ProcessCost(simulated.process.pid)]
        wait_until(time.perf_counter() + SETTLE_SECONDS)
        began, spent = time.perf_counter(), [cost.cpu_seconds() for cost in costs]
        wait_until(began + seconds - SETTLE_SECONDS / 2)
        children.check()
        passed = time.perf_counter() - began
        shares = [
            (cost.cpu_seconds() - before) / passed
            for cost, before in zip(costs, spent, strict=True)
        ]
        memory = [cost.peak_rss_mb() for cost in costs]
        simulated.process.wait(_END_SECONDS)
        told = simulated.log.read_text("utf-8").strip().splitlines()[-1]
        stored, missing = sum(frames_stored(plane).values()), frames_missing(plane)
    both = f"control plane {shares[0]:.2f}, fleet {shares[1]:.2f}; of {passed:.0f} s"
    return [
        Figure("simulation.fleet64.cores", sum(shares), "cores", 1.2, "<=", ENGINES, against=both),
        Figure("simulation.fleet64.frames_missing", float(missing), "frames", 0.0, "<=", stored,
               against=f"{stored} stored; the fleet says {told}"),
        Figure("simulation.fleet64.rss_mb", memory[0], "MiB",
               against=f"the control plane's peak; the fleet's {memory[1]:.0f} MiB"),
    ]  # fmt: skip


def _site(folder: Path, port: int, control_port: int) -> FleetSite:
    return FleetSite.open(
        FleetRequest(
            scenario=whole_model(), engines=ENGINES, group_size=GROUP_SIZE, affected=0, speed=1.0,
            seed=0, folder=folder, port=port, control_url=f"http://127.0.0.1:{control_port}",
            policy=DEFAULT.name,
        )
    )  # fmt: skip
