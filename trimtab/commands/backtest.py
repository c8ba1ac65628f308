"""`trimtab backtest`."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from contract.settings_reader import TOKEN_VARIABLE
from controlplane.errors import TrimtabError
from controlplane.policy.backtest import BacktestReport, Incident, Run, backtest
from controlplane.policy.builtin import BUILTIN
from controlplane.policy.policy import Policy, load_policy
from controlplane.policy.snapshot import Snapshot
from engine.errors import BadRequestError
from engine.simulation import scenario as scenarios
from engine.simulation.run import ScenarioRun
from trimtab.errors import InputError
from trimtab.input_file import read_input
from trimtab.output_file import check_output, force_option, write_output
from trimtab.simulated.history import SimulatedHistory, incidents_of, suited
from trimtab.simulated.real_incidents import recorded_names, recorded_run
from trimtab.simulated.stored import read_history
from trimtab.token_option import token_option


@click.command(
    epilog="Example: trimtab backtest --policy default --scenario bias-ramp-fast --json report.json"
)
@click.option(
    "--policy",
    "wanted",
    default="default",
    show_default=True,
    help="A policy that ships, by name, or a YAML file.",
)
@click.option("--scenario", help="A simulated scenario by name, or a .toml file.")
@click.option("--history", "url", help="Control plane whose stored snapshots are replayed.")
@click.option("--engine", help="With --history: the engine.  [default: the only one]")
@token_option(TOKEN_VARIABLE, "With --history: bearer token (viewer).")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=2000,
    show_default=True,
    help="With --history: newest snapshots at most.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulated engine.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report as JSON.",
)
@force_option
def command(
    wanted: str, scenario: str | None, url: str | None, engine: str | None, token: str | None,
    limit: int, seed: int, json_file: Path | None, force: bool,
) -> None:  # fmt: skip
    """Replay history, stored or simulated, through a policy; beside never and always acting."""
    if (scenario is None) == (url is None):
        raise InputError("Give either --scenario NAME or --history URL.")
    check_output(json_file, "--json", force=force)
    policy = _policy(wanted)
    truth: tuple[Incident, ...] = ()
    if scenario is not None:
        policy, snapshots, truth = _simulated(scenario, policy, seed)
    else:
        snapshots = read_history(str(url), engine, token, limit)
    report = backtest(snapshots, policy, incidents=truth)
    console = Console()
    console.print(_table(report, "simulated" if scenario else "stored"))
    for line in report.assumptions:
        console.print(f"assumed: {line}")
    if json_file is not None:
        text = json.dumps(report.model_dump(mode="json"), indent=2) + "\n"
        write_output(json_file, text, "--json", force=force)


def _policy(wanted: str) -> Policy:
    if wanted in BUILTIN:
        return BUILTIN[wanted]
    file = Path(wanted)
    if not file.exists():
        known = ", ".join(BUILTIN)
        raise InputError(f"Policy {wanted!r} is no file and none of {known}.")
    text = read_input(file, "policy file")
    try:
        return load_policy(text)
    except TrimtabError as error:
        raise InputError(f"{file}: {error.detail}") from None


def _simulated(
    name: str, policy: Policy, seed: int
) -> tuple[Policy, list[Snapshot], tuple[Incident, ...]]:
    if name in recorded_names():
        run = recorded_run(name, seed=seed)
    else:
        try:
            run = ScenarioRun.of(scenarios.load(name), seed=seed)
        except BadRequestError as error:
            raise InputError(error.detail) from None
    policy = suited(policy, run.scenario.tick_seconds)
    history = SimulatedHistory(run, policy)
    return policy, list(history.snapshots()), incidents_of(run.scenario)


def _table(report: BacktestReport, basis: str) -> Table:
    hours = report.seconds / 3600
    view = Table(title=f"{report.snapshots} {basis} snapshots, {hours:.1f} h")
    for heading in ("", "actions", "false", "flaps", "breach s", "first fitting act"):
        view.add_column(heading, justify="right")
    for run in (report.policy, report.never, report.always):
        view.add_row(*_row(run))
    return view


def _row(run: Run) -> list[str]:
    breach = ", ".join(f"{slo.value} {seconds:.0f}" for slo, seconds in run.breach_seconds.items())
    delays = ", ".join(
        "never" if delay is None else f"after {delay:.0f} s" for delay in run.delays.values()
    )
    false = "-" if run.false_actions is None else str(run.false_actions)
    return [run.name, str(len(run.actions)), false, str(run.flaps), breach or "0", delays or "-"]
