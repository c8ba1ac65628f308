"""Dashboard of the all-to-all: time, payload, and which rank keeps the others waiting."""

from grafana_foundation_sdk.builders import dashboard as builders

from dashboards import queries as q
from dashboards.frame import Panels, new_dashboard
from dashboards.panels import Query, lines

SECONDS = "moe_all_to_all_seconds"
PREFILL_OBJECTIVE_SECONDS = 0.005


def build() -> builders.Dashboard:
    """The dashboard."""
    return new_dashboard(
        "Trimtab / Communication", "trimtab-communication",
        "Dispatch and combine: how long, how much, and who waits for whom.",
        {"Time": _time(), "Ranks": _ranks(), "Payload": _payload()},
    )  # fmt: skip


def _time() -> Panels:
    legend = "{{op}} {{part}} {{engine}}"
    panels = [
        lines(
            f"All-to-all p99 of a layer, {phase}",
            [Query(q.quantile(0.99, SECONDS, ("engine", "op", "part"), phase=phase), legend)],
            unit="s", axis="Time", threshold=bound,
            about=f"Slowest rank of each step. Wait is the cost of imbalance, transfer of the "
            f"network. {more}",
        )
        for phase, bound, more in (
            ("prefill", PREFILL_OBJECTIVE_SECONDS, "Objective: 5 ms."),
            ("decode", None, "Objective: 40 % of the token time over the layers."),
        )
    ]  # fmt: skip
    mean = q.mean(SECONDS, ("engine", "op", "part", "phase"))
    return [
        *panels,
        lines(
            "All-to-all mean of a layer", [Query(mean, "{{phase}} {{op}} {{part}} {{engine}}")],
            unit="s", axis="Time", span=24,
            about="Exact: sum over count. Quantiles interpolate in buckets of four times.",
        ),
    ]  # fmt: skip


def _ranks() -> Panels:
    return [
        lines(
            "Wait per rank",
            [Query(q.rate("moe_all_to_all_rank_wait_seconds_total", ("engine", "rank")),
                   "rank {{rank}} {{engine}}")],
            unit="percentunit", axis="Share of time",
            about="The straggler waits least: the others wait for it.",
        ),
        lines(
            "Assignments per rank",
            [Query(q.rate("moe_card_assignments_total", ("engine", "rank")),
                   "rank {{rank}} {{engine}}")],
            unit="cps", axis="Assignments a second",
            about="Executed assignments by the rank that computed them.",
        ),
    ]  # fmt: skip


def _payload() -> Panels:
    message, legend = "moe_all_to_all_message_bytes", "{{op}} {{engine}}"
    return [
        lines(
            "Payload",
            [Query(q.rate("moe_all_to_all_bytes_total", ("engine", "op")), "{{op}} {{engine}}")],
            unit="Bps", axis="Bytes a second", about="Sent to other ranks, all layers.",
        ),
        lines(
            "Message to one peer",
            [Query(q.quantile(p, message, ("engine", "op")), f"p{p * 100:g} " + legend)
             for p in (0.99, 0.5)],
            unit="bytes", axis="Message size", threshold=32768,
            about="Under 32 KiB latency dominates bandwidth.",
        ),
    ]  # fmt: skip
