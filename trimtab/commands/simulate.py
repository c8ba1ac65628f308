"""`trimtab simulate`."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import httpx
from rich.console import Console

from engine.simulation import scenario as scenarios
from engine.simulation.fleet import Fleet, serve_fleet
from engine.simulation.scenario import Scenario
from trimtab.commands.simulated_options import one_sentence, preset_option, topology_option
from trimtab.demo.processes import Child, ChildFailedError, Children, free_port
from trimtab.simulated.control_address import control_address
from trimtab.simulated.recorded import recorded_workload
from trimtab.simulated.site import FleetRequest, FleetSite

_READY_SECONDS = 60.0
_CALM = "quiet-normal"


@click.command(
    epilog="Example: trimtab simulate --preset deepseek-v3 --engines 8 --scenario bias-ramp-fast "
    "--speed 10 --standalone"
)
@preset_option(None)
@topology_option(None)
@click.option("--engines", type=click.IntRange(1, 512), default=8, show_default=True)
@click.option(
    "--group-size",
    type=click.IntRange(1, 512),
    default=4,
    show_default=True,
    help="Engines of a group: they serve the same model and can be canaries.",
)
@click.option("--ranks", type=click.IntRange(1, 512), help="EP ranks.  [default: the scenario's]")
@click.option("--layers", type=click.IntRange(1, 512), help="MoE layers told of.  [default: all]")
@click.option(
    "--scenario",
    "name",
    default=_CALM,
    show_default=True,
    help="What happens, by name or a .toml file.",
)
@click.option(
    "--affected",
    type=click.IntRange(0, 512),
    default=1,
    show_default=True,
    help="Engines that the scenario happens to; the others stay healthy.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.01, 10_000),
    default=1.0,
    show_default=True,
    help="Scenario seconds a real second; frames stay one a second.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.01, 10_000),
    help="Requests a second and engine.  [default: the scenario's]",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Recorded requests in place of fitted ones: Azure 2023 csv, Mooncake jsonl, own jsonl. "
    "It repeats, and each engine begins elsewhere in it; --rate scales it.",
)
@click.option(
    "--control-url",
    default="http://127.0.0.1:8700",
    show_default=True,
    help="Control plane that frames go to; control.toml is for one that listens there.",
)
@click.option("--standalone", is_flag=True, help="Start a control plane for the fleet, too.")
@click.option(
    "--policy",
    default="default",
    show_default=True,
    help="Governing policy of a standalone control plane.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8200,
    show_default=True,
    help="Admin APIs of the engines, under /engines/ID.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("var/simulation"),
    show_default=True,
    help="Tokens, control.toml, state of the engines.",
)
@click.option("--duration", type=click.FloatRange(min=0.1), help="Stop after so many seconds.")
@click.option("--seed", type=int, default=0, show_default=True)
def command(
    preset: str | None, topology: str | None, engines: int, group_size: int, ranks: int | None,
    layers: int | None, name: str, affected: int, speed: float, rate: float | None,
    trace: Path | None, control_url: str, standalone: bool, policy: str, port: int, folder: Path,
    duration: float | None, seed: int,
) -> None:  # fmt: skip
    """Run a simulated fleet: frames, admin API and faults of real engines, without a card.

    Its folder holds a control.toml for `trimtab serve --config`; --standalone starts that, too.
    """
    logging.basicConfig(level="WARNING", format="%(levelname)s %(name)s: %(message)s")
    spec = {"preset": preset, "topology": topology, "ranks": ranks}
    with one_sentence():
        scenario = _adapted(scenarios.load(name), spec, layers, rate)
        workload = None if trace is None else recorded_workload(trace, rate)
        url = f"http://127.0.0.1:{free_port()}" if standalone else control_url
        site = FleetSite.open(
            FleetRequest(
                scenario=scenario, engines=engines, group_size=group_size, affected=affected,
                speed=speed, seed=seed, folder=folder, port=port, control_url=url,
                policy=policy, workload=workload,
            )
        )  # fmt: skip
    console = Console()
    try:
        with (
            _control_plane(site, standalone=standalone, console=console) as watched,
            one_sentence(),
        ):
            asyncio.run(_run(site, console, duration, watched))
    except ChildFailedError as error:
        raise click.ClickException(str(error)) from None


def _adapted(
    scenario: Scenario, spec: dict[str, str | int | None], layers: int | None, rate: float | None
) -> Scenario:
    """The scenario on the wanted model and cards; all layers unless fewer are asked for."""
    given: dict[str, object] = {key: value for key, value in spec.items() if value is not None}
    engine = scenario.engine.model_copy(update={**given, "layers": layers})
    traffic = scenario.traffic
    if rate is not None:
        traffic = traffic.model_copy(update={"per_second": rate})
    return scenario.model_copy(update={"engine": engine, "traffic": traffic})


@contextlib.contextmanager
def _control_plane(
    site: FleetSite, *, standalone: bool, console: Console
) -> Iterator[Callable[[], None]]:
    """A control plane as a child process, if one is wanted; gives a check that it still runs."""
    if not standalone:
        console.print(_where_frames_go(site), soft_wrap=True)
        yield lambda: None
        return
    with Children(site.request.folder / "logs") as children:
        child = children.start_trimtab("control", ["serve", "--config", str(site.control_file)])
        link = _login_link(site, child)
        console.print(f"Control plane with a one-time login: {link}", soft_wrap=True)
        yield child.check


def _where_frames_go(site: FleetSite) -> str:
    url = site.request.control_url
    if control_address(url).can_be_served:
        known = f"A control plane that knows this fleet: trimtab serve --config {site.control_file}"
    else:
        known = f"The control plane there must know this fleet: [[engines]] in {site.control_file}"
    return f"Frames go to {url}. {known}"


def _login_link(site: FleetSite, child: Child) -> str:
    """Wait until the control plane answers, then ask it for a link."""
    url = site.request.control_url
    headers = {"Authorization": f"Bearer {site.tokens['admin']}"}
    deadline = time.monotonic() + _READY_SECONDS
    pause = threading.Event()
    while True:
        child.check()
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.post(
                f"{url}/api/v1/login-links", headers=headers, trust_env=False,
                json={"name": "admin", "role": "admin"},
            )  # fmt: skip
            answer.raise_for_status()
            return url + str(answer.json()["path"])
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"the control plane did not answer within {_READY_SECONDS:.0f} s"
            )
        pause.wait(0.2)


async def _run(
    site: FleetSite, console: Console, duration: float | None, check: Callable[[], None]
) -> None:
    options = site.options()
    fleet = Fleet(site.members(), options)
    request = site.request

    def announce(url: str) -> None:
        console.print(
            f"{request.engines} simulated engines of {request.scenario.engine.preset} on {url} "
            f"play {request.scenario.name!r} ({request.scenario.title}). Ctrl-C ends.",
        )

    serving = asyncio.create_task(serve_fleet(fleet, options, announce))
    begun = time.monotonic()
    try:
        while not serving.done() and not fleet.stopped:
            check()
            await asyncio.wait({serving}, timeout=0.5)
            if duration is not None and time.monotonic() - begun >= duration:
                fleet.stop()
                break
    finally:
        fleet.stop()
        if not serving.done():
            serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    counts = fleet.counts()
    console.print(
        f"frames: {counts.get('sent', 0)} sent, {counts.get('dropped', 0)} dropped, "
        f"{counts.get('waiting', 0)} waiting; {counts.get('late', 0)} late ticks"
    )
