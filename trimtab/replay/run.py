"""A replay from the terminal: read, fit, send with a progress bar, write, summarise."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from contract.settings_reader import INFERENCE_TOKEN_VARIABLE
from trimtab.output_file import write_output
from trimtab.replay.client import Replayer, RequestResult, Target
from trimtab.replay.prompts import PromptSource
from trimtab.replay.scaling import Scaling, fit_length, fit_rate
from trimtab.replay.summary import summarise, table
from trimtab.replay.trace import TraceRequest
from trimtab.token_option import token_hint

CALIBRATION_SECONDS = 8.0
CALIBRATION_CONCURRENCY = 16
FIT_LENGTH_SHARE_OF_CONTEXT = 0.1
"""Mean request length that `--fit` aims at, as a share of the context."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What the command line asked for."""

    scaling: Scaling
    fit_share: float | None
    output: Path | None
    seed: int
    force: bool = False


async def served_model(target: Target) -> tuple[str, int]:
    """Name and context length of the engine's model.

    Raises:
        httpx.HTTPError: the engine does not answer, or refuses the token.
    """
    async with target.client() as client:
        response = await client.get("/v1/models")
        response.raise_for_status()
        model = response.json()["data"][0]
        return str(model["id"]), int(model["max_model_len"])


async def fit(
    requests: Sequence[TraceRequest], target: Target, context_tokens: int, share: float, seed: int
) -> Scaling:
    """Measure the engine with a closed loop of the scaled lengths, then set the rate.

    The capacity is completed requests a second at a concurrency of 16 over 8 s.
    """
    length = fit_length(requests, context_tokens * FIT_LENGTH_SHARE_OF_CONTEXT)
    sample = Scaling(1.0, length).apply(requests, context_tokens)
    replayer = Replayer(target, PromptSource(seed))
    capacity = await replayer.closed_loop(sample, CALIBRATION_CONCURRENCY, CALIBRATION_SECONDS)
    return Scaling(fit_rate(requests, capacity, share), length)


async def replay(
    requests: Sequence[TraceRequest], target: Target, options: ReplayOptions, console: Console
) -> list[RequestResult]:
    """Send the trace; Ctrl-C stops new requests and waits for those under way."""
    model, context = await served_model(target)
    target = Target(target.url, model, target.token, target.timeout_s)
    scaling = options.scaling
    if options.fit_share is not None:
        with console.status("Measuring the engine's capacity ..."):
            scaling = await fit(requests, target, context, options.fit_share, options.seed)
    console.print(f"rate × {scaling.rate:.4g}, lengths × {scaling.length:.4g}")
    scaled = scaling.apply(requests, context)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    with _progress(console) as progress:
        task = progress.add_task("replay", total=len(scaled), errors=0)
        errors = 0

        def advance(result: RequestResult) -> None:
            nonlocal errors
            errors += result.error is not None
            progress.update(task, advance=1, errors=errors)

        replayer = Replayer(target, PromptSource(options.seed), advance)
        await replayer.run(scaled, stop)
    if options.output is not None:
        lines = sorted(replayer.results, key=lambda result: result.index)
        text = "".join(f"{line.as_json()}\n" for line in lines)
        write_output(options.output, text, "--output", force=options.force)
    summary = summarise(replayer.results)
    console.print(table(summary))
    for reason, count in summary.reasons.items():
        console.print(f"{count} × {reason}")
    return replayer.results


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[errors]} errors"), TimeElapsedColumn(), console=console,
    )  # fmt: skip


def explain(error: httpx.HTTPError, url: str, token: str | None) -> str:
    """One sentence about why the engine could not be asked, and what to do."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        hint = "see the engine's log"
        if status in {401, 403}:
            hint = token_hint(token, INFERENCE_TOKEN_VARIABLE, "inference", status)
        return f"{url} answered {status}: {hint}"
    return f"{url} does not answer ({type(error).__name__}): is the engine running?"
