"""`trimtab plan`."""

from pathlib import Path

import click
from rich.console import Console

from engine.simulation.cost.presets import preset as shape_of
from engine.simulation.cost.topology import LINKS
from engine.simulation.cost.topology import topology as cluster_of
from engine.simulation.planning.plan import ENGINES, MAX_CARDS, Demand, plan
from engine.simulation.planning.u_curve import u_curve
from trimtab import plan_report
from trimtab.commands.simulated_options import one_sentence, preset_option, topology_option
from trimtab.output_file import check_output, force_option, output_file, write_output
from trimtab.plan_picture import draw

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    epilog="Example: trimtab plan --preset deepseek-v3 --gpus 64 --topology hgx-h100 "
    "--picture plan.png"
)
@preset_option("deepseek-v3")
@click.option(
    "--gpus",
    type=click.IntRange(1, MAX_CARDS),
    default=64,
    show_default=True,
    help="Cards of one EP group: N × M.",
)
@topology_option("hgx-h100")
@click.option("--link", type=click.Choice(list(LINKS)), help="Network link, one NIC a card.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="megatron",
    show_default=True,
    help="Whose constraints hold: only megatron splits an expert.",
)
@click.option(
    "--redundant",
    type=click.IntRange(0, 1024),
    multiple=True,
    default=(0, 32),
    show_default=True,
    help="Extra expert slots; may be repeated.",
)
@click.option(
    "--decode-per-card",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    help="Decoding sequences of a card.",
)
@click.option(
    "--context",
    type=click.IntRange(1, 1_000_000),
    default=4096,
    show_default=True,
    help="Cached tokens of a decoding sequence.",
)
@click.option(
    "--prompt",
    type=click.IntRange(1, 1_000_000),
    default=4096,
    show_default=True,
    help="Tokens of a new prompt.",
)
@click.option(
    "--chunk-size",
    type=click.IntRange(1, 131072),
    default=2048,
    show_default=True,
    help="Prefill tokens of a rank's step.",
)
@click.option(
    "--capacity-factor",
    type=click.FloatRange(1, 4),
    default=1.25,
    show_default=True,
    help="C of the expert buffers.",
)
@click.option(
    "--skew",
    type=click.FloatRange(0, 5),
    default=0.3,
    show_default=True,
    help="Expert load CV (assumed).",
)
@click.option("--overlap", is_flag=True, help="Two micro-batches hide the all-to-all.")
@click.option("--json", "json_file", type=_FILE, help="Write everything as JSON.")
@click.option("--picture", type=_FILE, help="Write a .png or .svg; needs matplotlib.")
@force_option
def command(
    preset: str, gpus: int, topology: str, link: str | None, engine: str,
    redundant: tuple[int, ...], decode_per_card: int, context: int, prompt: int, chunk_size: int,
    capacity_factor: float, skew: float, overlap: bool, json_file: Path | None,
    picture: Path | None, force: bool,
) -> None:  # fmt: skip
    """Which TP × EP layouts of a model fit, and what the cost model predicts of them."""
    check_output(json_file, "--json", force=force)
    check_output(picture, "--picture", force=force)
    console = Console()
    with one_sentence():
        shape, cluster = shape_of(preset), cluster_of(topology, link=link)
        demand = Demand(decode_per_card, context, prompt, chunk_size, capacity_factor, skew,
                        overlap)  # fmt: skip
        found = plan(shape, cluster, gpus, demand, engine=engine, redundant=redundant)
        curve = u_curve(shape, cluster, tokens_per_card=decode_per_card, skew=skew)
    console.print(plan_report.layouts_table(found))
    console.print(plan_report.memory_table(found))
    console.print(plan_report.curve_table(curve))
    console.print(plan_report.crossing_sentence(curve, cluster))
    if found.best is None:
        console.print(f"No layout of {gpus} cards fits {preset}: add cards or memory.")
    if json_file is not None:
        write_output(json_file, plan_report.to_json(found, curve), "--json", force=force)
    if picture is not None:
        with output_file(picture, "--picture", force=force) as unfinished:
            draw(found, curve, cluster.domain, unfinished)
