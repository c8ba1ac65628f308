"""Dashboard of expert load: how uneven, how much of it is noise, and what the bias adds."""

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import timeseries

from dashboards import queries as q
from dashboards.frame import Panels, new_dashboard
from dashboards.panels import Query, lines

LAYER = ("engine", "layer")
LEGEND = "layer {{layer}} {{engine}}"


def build() -> builders.Dashboard:
    """The dashboard."""
    return new_dashboard(
        "Trimtab / Expert load", "trimtab-expert-load",
        "Load of experts and ranks per MoE layer, the router bias, and what became of overflow.",
        {"Load": _load(), "Bias": _bias(), "Overflow": _overflow()},
    )  # fmt: skip


def _per_layer(
    title: str, name: str, about: str, *, unit: str = "none", threshold: float | None = None,
    span: int = 12,
) -> timeseries.Panel:  # fmt: skip
    return lines(
        title, [Query(q.worst(name, LAYER), LEGEND)], unit=unit, axis=title, about=about,
        threshold=threshold, span=span,
    )  # fmt: skip


def _load() -> Panels:
    noise = "Uniform routing alone exceeds 0.3 below 344 tokens (256 experts, top 8)."
    return [
        _per_layer("Expert load CV, raw", "moe_expert_load_cv_ratio",
                   f"Population std over mean; shown, never acted on. {noise}"),
        _per_layer("Expert load CV, debiased", "moe_expert_load_cv_debiased_ratio",
                   "Sampling noise (E-k)/(Tk) taken out. Natural skew of the router remains."),
        _per_layer("Rank load CV, raw", "moe_card_load_cv_ratio",
                   "Load per rank: what the slowest rank costs.", threshold=0.3),
        _per_layer("Rank load CV, debiased", "moe_card_load_cv_debiased_ratio",
                   "Sampling noise taken out; warns above 0.3.", threshold=0.3),
        _per_layer("Largest expert over mean", "moe_load_max_over_mean_ratio",
                   "2 and more makes one expert twice as busy as the average.", threshold=2,
                   span=8),
        _per_layer("Share on the busiest 16 % of experts", "moe_load_top_share_ratio",
                   "16 % when even; above 35 % a few experts carry the layer.",
                   unit="percentunit", threshold=0.35, span=8),
        _per_layer("Population stability index", "moe_load_psi_ratio",
                   "Against shares seen while the last good bias was live. Above 0.1 look, above "
                   "0.25 the load has moved.", threshold=0.25, span=8),
    ]  # fmt: skip


def _bias() -> Panels:
    return [
        lines(
            "Skew that the live bias adds",
            [Query(q.worst("trimtab_bias_drift_tau_ratio", ("engine",)), "added {{engine}}"),
             Query(q.worst("trimtab_expert_skew_tau_ratio", ("engine",)), "in all {{engine}}")],
            unit="none", axis="Tau", threshold=0.3, span=8,
            about="Lower confidence bound against the last good bias on the same tokens, worst "
            "layer. The governor rolls back when it stays above 0.3.",
        ),
        lines(
            "Distance to the last good bias",
            [Query(q.worst("moe_router_bias_distance", ("engine",)), "{{engine}}")],
            unit="none", axis="Largest difference", threshold=0.05, span=8,
            about="Largest difference of any expert's bias.",
        ),
        lines(
            "Bias version",
            [Query(q.worst("moe_router_bias_version", ("engine",)), "{{engine}}")],
            unit="none", axis="Version", span=8,
            about="Integer of the configured snapshot. An annotation marks every change, and when "
            "the live bias leaves the last good one or returns to it.",
        ),
    ]  # fmt: skip


def _overflow() -> Panels:
    everything = "moe_assignments_total"
    outcomes = [
        Query(q.ratio(f"moe_{outcome}_assignments_total", everything, ("engine",)),
              f"{outcome} {{{{engine}}}}")
        for outcome in ("overflow", "dropped", "rerouted", "spilled")
    ]  # fmt: skip
    by_layer = q.ratio("moe_overflow_assignments_total", everything, LAYER)
    return [
        lines(
            "Overflow per layer", [Query(by_layer, LEGEND)], unit="percentunit",
            axis="Share of assignments", threshold=0.05,
            about="Per step, before reroute. A layer above 5 % loses or moves work.",
        ),
        lines(
            "What became of overflow", outcomes, unit="percentunit", axis="Share of assignments",
            about="overflow = rerouted + spilled + dropped. A policy that never ran has no line.",
        ),
        lines(
            "Gate weight kept",
            [Query(q.worst("moe_gate_mass_kept_ratio", ("engine",)), "{{engine}}")],
            unit="percentunit", axis="Share of gate weight", minimum=None, span=8,
            about="Gate weight that survived dropping: the cost in quality.",
        ),
        lines(
            "Tokens that lost every expert",
            [Query(q.rate("moe_tokens_all_dropped_total", ("engine",)), "{{engine}}")],
            unit="cps", axis="Tokens a second", span=8,
            about="They keep their residual and shared expert. Should be zero.",
        ),
        lines(
            "Slots of one expert",
            [Query(q.worst("moe_capacity_slots", ("engine",)), "{{engine}}")], unit="short",
            axis="Slots", span=8, about="Capacity of one expert in a step, mean of the interval.",
        ),
    ]  # fmt: skip
