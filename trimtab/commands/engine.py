"""`trimtab engine`."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import click

from engine.errors import BadRequestError, CheckpointError, EngineError
from engine.server.auth import TokenBook
from engine.server.run import Outside, run_engine
from engine.server.settings import EngineSettings, read_settings
from trimtab.errors import InputError

_PATH = click.Path(path_type=Path)


def _knobs(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    knobs: dict[str, str] = {}
    for value in values:
        name, equals, setting = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} is not KNOB=VALUE, such as chunk_size=256")
        knobs[name] = setting
    return knobs or None


@click.command(
    epilog="Example: trimtab engine --ranks 2 --port 8100 --state-dir var/engine "
    "--token-file var/engine-tokens.json --set chunk_size=256"
)
@click.option("--config", "file", type=_PATH, help="TOML file; see TRIMTAB_ENGINE_CONFIG.")
@click.option("--engine-id", help="Id in frames and metrics.  [default: engine-0]")
@click.option("--group", help="EP group.  [default: group-0]")
@click.option("--checkpoint", type=_PATH, help="Hugging Face folder.  [default: the reference]")
@click.option("--ranks", type=int, help="Expert-parallel ranks, a process each.  [default: 2]")
@click.option("--device", help="cpu or cuda.  [default: cpu]")
@click.option("--dtype", help="float32 or bfloat16.  [default: float32]")
@click.option("--context-tokens", type=int, help="Longest sequence.  [default: 2048]")
@click.option("--kv-blocks", type=int, help="KV blocks of one rank.  [default: 1024]")
@click.option("--queue-limit", type=int, help="Requests that may wait.  [default: 256]")
@click.option("--state-dir", type=_PATH, help="Config, biases, epoch.  [default: var/engine]")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port; 0 takes a free one.  [default: 8100]")
@click.option("--tls-certificate", type=_PATH, help="PEM file.")
@click.option("--tls-key", type=_PATH, help="PEM file.")
@click.option("--insecure", is_flag=True, default=None, help="No TLS beyond loopback.")
@click.option("--token-file", type=_PATH, help="Made by trimtab token create --engine-tokens.")
@click.option("--open-inference", is_flag=True, default=None, help="/v1 without a token.")
@click.option("--telemetry-url", help="Control plane; frames go to its /v1/logs.")
@click.option("--fault", "faults", multiple=True, help="Allow a fault by name; may be repeated.")
@click.option(
    "--set", "runtime", multiple=True, callback=_knobs, metavar="KNOB=VALUE",
    help="A knob of the first start; afterwards the stored config wins.",
)  # fmt: skip
@click.option("--log-level", help="debug, info, warning, error.  [default: info]")
def command(file: Path | None, **flags: Any) -> None:
    """Serve an MoE checkpoint over expert-parallel ranks, with its admin API.

    Every setting can also come from TRIMTAB_ENGINE_<NAME> or a TOML file. Stop it with Ctrl-C.
    """
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        settings = read_settings(file, **given)
    except BadRequestError as error:
        raise InputError(error.detail) from None
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s"
    )
    for chatty in ("httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        failure = asyncio.run(_run(settings))
    except (BadRequestError, CheckpointError) as error:
        raise InputError(error.detail) from None
    except (EngineError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if failure is not None:
        raise click.ClickException(f"engine {settings.engine_id} ends: {failure}")
    click.echo(f"engine {settings.engine_id} was asked to stop, and has stopped in order")


async def _run(settings: EngineSettings) -> BaseException | None:
    """Compose core, telemetry and server, and serve; torch is imported from here on."""
    from engine.faults.control import Faults
    from engine.llm_engine.engine import LLMEngine
    from engine.model.tokenizer import Tokenizer
    from engine.telemetry.text_format import CONTENT_TYPE, encode_families

    core = LLMEngine(settings.engine_config())
    faults = Faults(core, settings.faults) if settings.faults else None
    outside = Outside(
        tokens=TokenBook(settings.token_file, settings.tokens),
        tokenizer=Tokenizer(settings.checkpoint),
        metrics=lambda: (encode_families(core.collector.collect()), CONTENT_TYPE),
        faults=faults,
    )
    try:
        await core.start()
        return await run_engine(core, settings, outside, click.echo)
    finally:
        await core.stop()
