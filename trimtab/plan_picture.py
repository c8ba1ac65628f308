"""The planner's pictures: the U-curve over EP size, and the layouts of a plan. matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

from engine.simulation.planning.plan import Plan
from engine.simulation.planning.u_curve import UCurve
from trimtab.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")


def draw(plan: Plan, curve: UCurve, domain: int, file: Path) -> None:
    """Write both panels to `file`, a .png or .svg.

    Raises:
        InputError: another suffix, or matplotlib is not installed.
    """
    if file.suffix not in SUFFIXES:
        raise InputError(
            f"a picture must end in {' or '.join(SUFFIXES)}, not in {file.suffix or 'nothing'}."
        )
    try:
        import matplotlib as mpl
    except ImportError:
        raise InputError("A picture needs matplotlib: pip install 'trimtab[tools]'.") from None
    mpl.use("Agg")
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "trimtab"
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _curve(left, curve, domain)
    _layouts(right, plan)
    figure.suptitle(
        f"{plan.model} on {plan.topology}: predicted (all-to-all and experts fitted, rest assumed)",
        fontsize=10,
    )
    figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def _curve(axes: "Axes", curve: UCurve, domain: int) -> None:
    sizes = [point.ranks for point in curve.points]
    axes.stackplot(
        sizes,
        [point.experts for point in curve.points],
        [point.dispatch for point in curve.points],
        [point.combine for point in curve.points],
        labels=["experts", "dispatch", "combine"], alpha=0.75,
    )  # fmt: skip
    axes.plot(sizes, [point.total for point in curve.points], "k.-", lw=1)
    best = curve.minimum
    axes.annotate(
        f"minimum: EP {best.ranks}, {best.total:.0f} µs", (best.ranks, best.total), (0.32, 0.62),
        textcoords="axes fraction", arrowprops={"arrowstyle": "->"},
    )  # fmt: skip
    if sizes[-1] > domain:
        axes.axvline(domain, color="grey", ls="--", lw=1)
        axes.text(domain * 1.05, axes.get_ylim()[1] * 0.94, "leaves the NVLink domain", fontsize=8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlabel("EP size M")
    axes.set_ylabel(f"µs of one MoE layer, {curve.tokens_per_card} decode tokens a card")
    axes.legend(loc="upper right")


def _layouts(axes: "Axes", plan: Plan) -> None:
    usable = [each for each in plan.layouts if not each.refused]
    names = [
        f"N={e.layout.tp} M={e.layout.ranks} R={e.layout.redundant}" for e in usable
    ]  # fmt: skip
    axes.barh(names, [each.tpot * 1e3 for each in usable], color="#4878a8")
    for row, each in enumerate(usable):
        text = f" {each.tokens_per_second_per_card:.0f} tok/s a card"
        axes.text(each.tpot * 1e3, row, text, va="center", fontsize=8)
    axes.axvline(50, color="firebrick", ls="--", lw=1)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlabel("TPOT, ms (50 ms objective dashed)")
    axes.set_title(f"{plan.cards} cards: {len(usable)} of {len(plan.layouts)} layouts can be used",
                   fontsize=9)  # fmt: skip
