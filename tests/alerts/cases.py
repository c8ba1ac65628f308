"""For every alert: series under which it fires, and series under which it stays silent."""

from dataclasses import dataclass, field

E0 = 'model="m",engine="e0"'


@dataclass(frozen=True)
class Case:
    """Input series (promtool notation, one sample a minute) for one alert.

    Attributes:
        firing, silent: value notation by series.
        at: when to look.
        shown: what `{{ $value … }}` becomes in the description.
        labels: of the firing alert, beyond those of the rule.
        minutes: interval of the samples.
    """

    firing: dict[str, str]
    silent: dict[str, str]
    at: str = "20m"
    shown: str = ""
    labels: dict[str, str] = field(default_factory=lambda: {"model": "m", "engine": "e0"})
    minutes: int = 1


ONLY_ENGINE = {"engine": "e0"}


def counters(part: str, share: float, n: int = 60, extra: str = "") -> dict[str, str]:
    """Assignments of 1,024 a minute and a part of them."""
    some = int(1024 * share)
    return {
        f'{part}{{{E0},layer="0"{extra}}}': f"0+{some}x{n}",
        f'moe_assignments_total{{{E0},layer="0"}}': f"0+1024x{n}",
    }


def gauge(name: str, value: float, labels: str = E0, n: int = 60) -> dict[str, str]:
    """A constant gauge."""
    return {f"{name}{{{labels}}}": f"{value:g}x{n}"}


def histogram(name: str, bound: str, good: int, total: int, n: int = 400) -> dict[str, str]:
    """`total` requests a sample, `good` of them at or under the bound."""
    return {
        f'{name}_bucket{{{E0},le="{bound}"}}': f"0+{good}x{n}",
        f"{name}_count{{{E0}}}": f"0+{total}x{n}",
    }


TTFT, TPOT = (
    f"gen_ai_server_{name}_seconds" for name in ("time_to_first_token", "time_per_output_token")
)


def burn(name: str, bound: str) -> dict[str, Case]:
    """Page, slow page and ticket of a latency objective."""
    return {
        "Page": Case(
            histogram(name, bound, 3, 4), histogram(name, bound, 7, 8), at="30m", shown="25%"
        ),
        "PageSlow": Case(
            histogram(name, bound, 7, 8), histogram(name, bound, 31, 32), at="370m", shown="12.5%",
            minutes=10,
        ),
        "Ticket": Case(
            histogram(name, bound, 31, 32, 200), histogram(name, bound, 127, 128, 200),
            at="75h", shown="3.125%", minutes=30,
        ),
    }  # fmt: skip


def all_to_all(phase: str, slow: bool) -> dict[str, str]:
    """One layer whose p99 is in the cell above 12.8 ms, or in the lowest."""
    name = "moe_all_to_all_seconds_bucket"
    labels = f'{E0},op="dispatch",phase="{phase}",part="wait"'
    low = "0+0x60" if slow else "0+64x60"
    series = {
        f'{name}{{{labels},le="5e-05"}}': low,
        f'{name}{{{labels},le="0.0128"}}': low,
        f'{name}{{{labels},le="0.0512"}}': "0+64x60",
        f'{name}{{{labels},le="+Inf"}}': "0+64x60",
    }
    return series | {f'moe_assignments_total{{{E0},layer="0"}}': "0+1024x60"}


def waits(slowest: int) -> dict[str, str]:
    """Seconds of wait a minute of four ranks."""
    name = "moe_all_to_all_rank_wait_seconds_total"
    return {f'{name}{{{E0},rank="{rank}"}}': f"0+{15 if rank else slowest}x60" for rank in range(4)}


SLOW = {"model": "m", "engine": "e0", "op": "dispatch"}
P99 = "50.82ms"

CASES: dict[str, Case] = {
    "MoeExpertLoadSkew": Case(
        gauge("moe_card_load_cv_debiased_ratio", 0.5, f'{E0},layer="3"'),
        gauge("moe_card_load_cv_debiased_ratio", 0.25, f'{E0},layer="3"'), shown="0.5",
    ),
    "MoeExpertLoadSkewSevere": Case(
        gauge("moe_card_load_cv_debiased_ratio", 0.75, f'{E0},layer="3"'),
        gauge("moe_card_load_cv_debiased_ratio", 0.5, f'{E0},layer="3"'), shown="0.75",
    ),
    "MoeLoadSharesMoved": Case(
        gauge("moe_load_psi_ratio", 0.5, f'{E0},layer="3"'),
        gauge("moe_load_psi_ratio", 0.125, f'{E0},layer="3"'), shown="0.5",
    ),
    "MoeAllToAllSlowPrefill": Case(
        all_to_all("prefill", slow=True), all_to_all("prefill", slow=False), shown=P99,
        labels=SLOW,
    ),
    "MoeAllToAllSlowDecode": Case(
        all_to_all("decode", slow=True), all_to_all("decode", slow=False), shown=P99, labels=SLOW
    ),
    "MoeOverflowHigh": Case(
        counters("moe_overflow_assignments_total", 0.125),
        counters("moe_overflow_assignments_total", 0.03125), shown="12.5%",
    ),
    "MoeAssignmentsDropped": Case(
        counters("moe_dropped_assignments_total", 0.0625),
        counters("moe_dropped_assignments_total", 0.0078125), shown="6.25%",
    ),
    "MoeTokensAllDropped": Case(
        {f"moe_tokens_all_dropped_total{{{E0}}}": "0+60x60"},
        {f"moe_tokens_all_dropped_total{{{E0}}}": "7x60"}, shown="1",
    ),
    "MoeCapacityEffectiveLow": Case(
        counters("moe_executed_assignments_total", 0.875),
        counters("moe_executed_assignments_total", 0.96875), shown="87.5%",
    ),
    "MoeCapacityEffectiveCritical": Case(
        counters("moe_executed_assignments_total", 0.75),
        counters("moe_executed_assignments_total", 0.875), shown="75%",
    ),
    "MoeBiasDrift": Case(
        gauge("trimtab_bias_drift_tau_ratio", 0.5, 'engine="e0"'),
        gauge("trimtab_bias_drift_tau_ratio", 0.25, 'engine="e0"'), shown="0.5",
        labels=ONLY_ENGINE,
    ),
    "MoeBiasFarFromLastGood": Case(
        gauge("moe_router_bias_distance", 0.25), gauge("moe_router_bias_distance", 0.03125),
        shown="0.25",
    ),
    "MoeStragglerRank": Case(waits(0), waits(14), shown="0%"),
    "MoeTelemetryAbsent": Case(
        gauge("trimtab_frame_age_seconds", 32, 'engine="e0"'),
        gauge("trimtab_frame_age_seconds", 2, 'engine="e0"'), shown="32s", labels=ONLY_ENGINE,
    ),
    "MoeTelemetryMissing": Case(
        {}, gauge("trimtab_frame_age_seconds", 2, 'engine="e0"'), labels={}
    ),
    "MoeTelemetryGaps": Case(
        {'trimtab_frame_gaps_total{engine="e0"}': "0+2x60"},
        {'trimtab_frame_gaps_total{engine="e0"}': "5x60"}, shown="20", labels=ONLY_ENGINE,
    ),
    "MoeFramesDropped": Case(
        {f'moe_engine_frames_total{{{E0},outcome="dropped"}}': "0+2x60"},
        {f'moe_engine_frames_total{{{E0},outcome="dropped"}}': "5x60",
         f'moe_engine_frames_total{{{E0},outcome="sent"}}': "0+60x60"}, shown="20",
    ),
    "MoeEngineDown": Case(
        {'up{job="trimtab-engine",instance="e0:8100"}': "0x60"},
        {'up{job="trimtab-engine",instance="e0:8100"}': "1x60"},
        labels={"job": "trimtab-engine", "instance": "e0:8100"},
    ),
    "TrimtabDown": Case(
        {'up{job="trimtab-controlplane",instance="c:8000"}': "0x60"},
        {'up{job="trimtab-controlplane",instance="c:8000"}': "1x60"},
        labels={"job": "trimtab-controlplane", "instance": "c:8000"},
    ),
    "TrimtabEngineUnreachable": Case(
        gauge("trimtab_engine_reachable", 0, 'engine="e0"'),
        gauge("trimtab_engine_reachable", 1, 'engine="e0"'), labels=ONLY_ENGINE,
    ),
    "TrimtabNoLeader": Case(
        {'trimtab_leader{instance="a"}': "0x60", 'trimtab_leader{instance="b"}': "0x60"},
        {'trimtab_leader{instance="a"}': "0x60", 'trimtab_leader{instance="b"}': "1x60"},
        labels={},
    ),
    "TrimtabActionStuck": Case(
        gauge("trimtab_action_in_flight", 1, 'engine="e0"'),
        {'trimtab_action_in_flight{engine="e0"}': "1x20 0x40"}, at="50m", labels=ONLY_ENGINE,
    ),
    "TrimtabJobFailing": Case(
        {'trimtab_job_failures_total{job="seal"}': "0+1x60"},
        {'trimtab_job_failures_total{job="seal"}': "3x60"}, shown="15", labels={"job": "seal"},
    ),
    **{f"TtftBurn{tier}": case for tier, case in burn(TTFT, "0.2").items()},
    **{f"TpotBurn{tier}": case for tier, case in burn(TPOT, "0.05").items()},
    "OverflowBurnPage": Case(
        counters("moe_overflow_assignments_total", 0.25, 80),
        counters("moe_overflow_assignments_total", 0.03125, 80), at="20m", shown="100%",
    ),
    "OverflowBurnPageSlow": Case(
        counters("moe_overflow_assignments_total", 0.25, 60),
        counters("moe_overflow_assignments_total", 0.03125, 60), at="40m", shown="100%",
    ),
}  # fmt: skip
