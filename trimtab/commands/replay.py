"""`trimtab replay`."""

import asyncio
from pathlib import Path

import click
import httpx
from rich.console import Console

from contract.settings_reader import INFERENCE_TOKEN_VARIABLE
from trimtab.errors import InputError
from trimtab.output_file import check_output, force_option
from trimtab.replay.client import Target
from trimtab.replay.run import ReplayOptions, explain, replay
from trimtab.replay.scaling import Scaling
from trimtab.replay.trace import TraceError, read_trace
from trimtab.token_option import token_option

_FACTOR = click.FloatRange(min=0, min_open=True, max=1e6)


@click.command(
    epilog="Example: trimtab replay --trace azure_conv.csv --url http://127.0.0.1:8100 --fit 0.5"
)
@click.option(
    "--trace",
    required=True,
    type=click.Path(path_type=Path),
    help="Azure-2023 .csv, Mooncake .jsonl, or own .jsonl.",
)
@click.option("--url", required=True, help="Base URL of the engine.")
@token_option(INFERENCE_TOKEN_VARIABLE, "Bearer token (inference role).")
@click.option(
    "--rate-scale",
    type=_FACTOR,
    default=1.0,
    show_default=True,
    help="Arrivals come this many times as fast.",
)
@click.option(
    "--length-scale",
    type=_FACTOR,
    default=1.0,
    show_default=True,
    help="Prompts and outputs are this many times as long.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Send the first so many requests.")
@click.option(
    "--fit",
    "fit_share",
    type=click.FloatRange(min=0, min_open=True, max=2),
    help="Scale lengths and rate to this share of the measured capacity.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Per-request results, jsonl.")
@force_option
@click.option("--seed", type=int, default=0, show_default=True, help="Choice of prompt texts.")
def command(
    trace: Path, url: str, token: str | None, rate_scale: float, length_scale: float,
    limit: int | None, fit_share: float | None, output: Path | None, seed: int,
    force: bool,
) -> None:  # fmt: skip
    """Send a request trace to an engine, open loop, and report what each request saw."""
    check_output(output, "--output", force=force)
    console = Console()
    try:
        requests = read_trace(trace, limit)
    except TraceError as error:
        raise InputError(f"{error}. Nothing was sent.") from None
    options = ReplayOptions(Scaling(rate_scale, length_scale), fit_share, output, seed, force)
    try:
        results = asyncio.run(replay(requests, Target(url, "", token), options, console))
    except httpx.HTTPError as error:
        raise click.ClickException(explain(error, url, token)) from None
    if any(result.error is not None for result in results):
        raise SystemExit(1)
