"""Multi-window burn-rate alerts from `contract.burn_windows`.

TTFT and TPOT count requests, bad above the smallest bucket bound that is at or above the objective.
For our engines that is the objective: exact. vLLM and SGLang have no bound at 0.2 s; there the next
one, 0.25 s, counts, so what is called bad surely is, and a page is never owed to an interpolation.
The control plane interpolates such counts, and may call the objective breached sooner.

Overflow counts slices of one minute here; the control plane counts exact slices of 10 s. Overflow
only pages.
"""

from dataclasses import dataclass

from alerts.recording import ENGINE, OVERFLOW
from alerts.rules import Alert, Group, Recording, Severity, buckets
from contract.bucket_labels import at_or_above
from contract.burn_windows import BURN_TIERS, BurnTier, Consumer
from contract.histograms import TPOT_OBJECTIVE_SECONDS, TTFT_OBJECTIVE_SECONDS

BUDGET = 0.01
OVERFLOW_OBJECTIVE = 0.05
TIERS = tuple(tier for tier in BURN_TIERS if tier.consumer is not Consumer.GOVERNOR)


@dataclass(frozen=True, slots=True)
class Latency:
    """An objective on a share of requests: `bound` seconds, a bound of our engines' `histogram`."""

    slo: str
    title: str
    histogram: str
    bound: float


LATENCIES = (
    Latency("ttft", "Time to first token", "gen_ai_server_time_to_first_token_seconds",
            TTFT_OBJECTIVE_SECONDS),
    Latency("tpot", "Time per output token", "gen_ai_server_time_per_output_token_seconds",
            TPOT_OBJECTIVE_SECONDS),
)  # fmt: skip


def duration(seconds: int) -> str:
    """Prometheus duration in its largest whole unit: 21600 → "6h"."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def bad_name(slo: str, window: str) -> str:
    """Recorded share of bad events of a window."""
    return f"engine:{slo}_bad:ratio_rate{window}"


def events_name(slo: str, window: str) -> str:
    """Recorded number of events of a window."""
    return f"engine:{slo}_events:increase{window}"


def _windows(consumer_slo: str) -> list[int]:
    tiers = _tiers(consumer_slo)
    return sorted(
        {seconds for tier in tiers for seconds in (tier.short_seconds, tier.long_seconds)}
    )


def _tiers(slo: str) -> tuple[BurnTier, ...]:
    return tuple(t for t in TIERS if slo != "overflow" or t.consumer is Consumer.PAGE)


def _recordings() -> list[Recording]:
    rules: list[Recording] = []
    for latency in LATENCIES:
        bucket = f'{buckets(latency.histogram)}{{le=~"{at_or_above(latency.bound)}"}}'
        total = f"{latency.histogram}_count"
        for window in map(duration, _windows(latency.slo)):
            at_bounds = f"sum by (le, {ENGINE}) (rate({bucket}[{window}]))"
            good = f"min by ({ENGINE}) ({at_bounds})"
            all_of = f"sum by ({ENGINE}) (rate({total}[{window}]))"
            rules.append(Recording(bad_name(latency.slo, window), f"1 - {good} / {all_of}"))
        for window in sorted({duration(tier.long_seconds) for tier in TIERS if tier.min_events}):
            counted = f"sum by ({ENGINE}) (increase({total}[{window}]))"
            rules.append(Recording(events_name(latency.slo, window), counted))
    for window in map(duration, _windows("overflow")):
        slices = f"avg_over_time(({OVERFLOW} > bool {OVERFLOW_OBJECTIVE})[{window}:1m])"
        rules.append(Recording(bad_name("overflow", window), slices))
    return rules


def _alert(slo: str, title: str, tier: BurnTier) -> Alert:
    short, long = duration(tier.short_seconds), duration(tier.long_seconds)
    limit = f"{tier.burn * BUDGET:g}"
    parts = [f"{bad_name(slo, long)} > {limit}", f"{bad_name(slo, short)} > {limit}"]
    if tier.min_events and slo != "overflow":
        parts.append(f"{events_name(slo, long)} >= {tier.min_events}")
    suffix = "".join(word.capitalize() for word in tier.name.split("-"))
    severity = Severity.PAGE if tier.consumer is Consumer.PAGE else Severity.TICKET
    return Alert(
        name=f"{slo.capitalize()}Burn{suffix}",
        expr=" and ".join(parts),
        hold="1m",
        severity=severity,
        summary=f"{title} spends its error budget {_pace(tier.burn)}.",
        description=f"{{{{ $value | humanizePercentage }}}} of the last {long} of "
        f"{{{{ $labels.engine }}}} were bad, and the last {short} are no better; "
        f"the objective allows {BUDGET:.0%}.",
        labels={"slo": slo, "tier": tier.name},
    )


def _pace(burn: float) -> str:
    return f"{burn:g} times too fast" if burn > 1 else "faster than it lasts"


def _alerts() -> list[Alert]:
    named = [(latency.slo, latency.title) for latency in LATENCIES] + [("overflow", "Overflow")]
    return [_alert(slo, title, tier) for slo, title in named for tier in _tiers(slo)]


BURN = (
    Group("trimtab-slo-recording", tuple(_recordings())),
    Group("trimtab-slo-burn", tuple(_alerts())),
)
