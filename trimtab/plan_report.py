"""A plan as terminal tables and as JSON."""

import json
import math
from dataclasses import asdict

from rich.table import Table

from engine.simulation.cost.topology import Topology
from engine.simulation.planning.plan import Plan, PlannedLayout
from engine.simulation.planning.u_curve import UCurve

BASIS = {
    "all_to_all": "fitted",
    "experts": "fitted",
    "attention, dense layers, head, all-reduce": "assumed",
    "expert skew": "assumed",
    "memory": "computed",
}


def layouts_table(plan: Plan) -> Table:
    """The layouts that can be used, best first."""
    view = Table(title=f"{plan.model}, {plan.cards} cards of {plan.topology}: predicted")
    for heading in ("N", "M", "R", "TPOT ms", "TTFT ms", "tok/s/card", "a2a", "max÷mean",
                    "free GB", "NVLink"):  # fmt: skip
        view.add_column(heading, justify="right", no_wrap=True)
    for each in plan.layouts:
        if not each.refused:
            view.add_row(*_cells(each))
    return view


def _cells(each: PlannedLayout) -> list[str]:
    layout = each.layout
    return [
        str(layout.tp), str(layout.ranks), str(layout.redundant),
        f"{each.tpot * 1e3:.1f}", f"{each.ttft * 1e3:.0f}",
        f"{each.tokens_per_second_per_card:.0f}", f"{each.exchange_share:.0%}",
        f"{each.busiest:.2f}", f"{each.memory.free / 1e9:.1f}",
        "crosses" if each.crosses else "inside",
    ]  # fmt: skip


def memory_table(plan: Plan) -> Table:
    """GB of one card for every layout, and why the refused ones are."""
    view = Table(title=f"GB of a card ({plan.topology})")
    for heading in ("N", "M", "R", "experts", "common", "KV", "buffers"):
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("", overflow="fold")
    for each in plan.layouts:
        memory = each.memory
        sizes = (memory.experts, memory.common, memory.kv_cache, memory.buffers)
        head = (str(part) for part in (each.layout.tp, each.layout.ranks, each.layout.redundant))
        view.add_row(*head, *(f"{size / 1e9:.2f}" for size in sizes), each.refused or "fits")
    return view


def curve_table(curve: UCurve) -> Table:
    """The U-curve, microseconds of one MoE layer."""
    view = Table(title=f"One MoE layer over EP size, {curve.tokens_per_card} decode tokens a card")
    for heading in ("EP M", "experts µs", "dispatch µs", "combine µs", "total µs", "max÷mean", ""):
        view.add_column(heading, justify="right")
    for point in curve.points:
        mark = "minimum" if point is curve.minimum else ""
        values = (point.experts, point.dispatch, point.combine, point.total)
        cells = [str(point.ranks), *(f"{v:.0f}" for v in values), f"{point.busiest:.2f}", mark]
        view.add_row(*cells)
    return view


def crossing_sentence(curve: UCurve, where: Topology) -> str:
    """What the first EP size outside a domain costs."""
    pair = curve.crossing(where.domain)
    if pair is None:
        return f"Every EP size shown stays inside one domain of {where.domain} cards."
    inside, outside = pair
    before, after = inside.dispatch + inside.combine, outside.dispatch + outside.combine
    step = f"+{after / before - 1:.0%}" if before > 0 else "from nothing"
    return (
        f"Leaving the domain of {where.domain} cards (EP {inside.ranks} to {outside.ranks}) costs "
        f"{step} all-to-all; a byte outside takes {where.rate_ratio:.1f} times as long as inside."
    )


def to_json(plan: Plan, curve: UCurve) -> str:
    """Everything, with what each part rests on."""
    body = {
        "basis": BASIS,
        "plan": asdict(plan),
        "u_curve": {**asdict(curve), "minimum_ranks": curve.minimum.ranks},
    }
    return json.dumps(_finite(body), indent=2) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
