"""The `trimtab` command. Each subcommand is a module of `trimtab.commands`, loaded when called."""

import importlib
import sys

import click

COMMANDS: dict[str, str] = {
    "alerts": "Build the recording rules, alerts and Alertmanager config.",
    "backtest": "Replay history or a simulated scenario through a policy.",
    "bench": "Measure one part of Trimtab and hold the figures against their goals.",
    "dashboards": "Build the Grafana dashboards.",
    "db": "Upgrade, check and inspect the control plane's database.",
    "demo": "Start everything, inject a fault, and watch the loop close.",
    "engine": "Serve an MoE checkpoint over expert-parallel ranks.",
    "history": "Export stored history for notebooks.",
    "plan": "Plan TP × EP for a model, a GPU count and a topology.",
    "replay": "Send a request trace to an engine.",
    "serve": "Run the control plane.",
    "simulate": "Run a simulated fleet that speaks the contract.",
    "slo": "Validate OpenSLO files.",
    "token": "Create and list access tokens.",
    "train": "Train the reference checkpoint.",
}


class LazyGroup(click.Group):
    """Imports `trimtab.commands.<name>` only when that command runs: no torch for `serve`."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """All names, without importing anything."""
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The click command of a module, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"trimtab.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their one-line help."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trimtab")
def main() -> None:
    """Trimtab: observability and SLO governance for Mixture-of-Experts inference."""


if __name__ == "__main__":
    sys.exit(main())
