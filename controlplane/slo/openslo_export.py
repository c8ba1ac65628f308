"""Objectives to OpenSLO v1 YAML; `openslo.read_openslo` gives the same settings back."""

import math

import yaml

from contract.burn_windows import BurnTier
from controlplane.slo.openslo import PREFIX
from controlplane.slo.openslo_kinds import API_VERSION
from controlplane.slo.settings import LatencyObjective, OverflowObjective, SloSettings
from controlplane.slo.status import SloName

SERVICE = "moe-inference"
_LATENCY_SERIES = {
    SloName.TTFT: "gen_ai_server_time_to_first_token_seconds",
    SloName.TPOT: "gen_ai_server_time_per_output_token_seconds",
}
_TITLES = {SloName.TTFT: "Time to first token", SloName.TPOT: "Time per output token"}


def write_openslo(settings: SloSettings) -> str:
    """One service, three SLOs, and a condition for each burn tier."""
    documents = [
        {
            "apiVersion": API_VERSION, "kind": "Service", "metadata": {"name": SERVICE},
            "spec": {"description": "Mixture-of-Experts inference governed by Trimtab."},
        },
        _latency(SloName.TTFT, settings.ttft),
        _latency(SloName.TPOT, settings.tpot),
        _overflow(settings.overflow),
        *(_condition(tier) for tier in settings.tiers),
    ]  # fmt: skip
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _latency(name: SloName, objective: LatencyObjective) -> dict[str, object]:
    query = f"sum by (le) (rate({_LATENCY_SERIES[name]}_bucket[5m]))"
    return _slo(
        name, _TITLES[name], {}, "Occurrences",
        {"thresholdMetric": _metric(query)},
        {"op": "lte", "value": objective.threshold_seconds, "target": objective.target},
    )  # fmt: skip


def _overflow(objective: OverflowObjective) -> dict[str, object]:
    notes = {
        "slice-seconds": f"{objective.slice_seconds:g}",
        "slices-needed": str(objective.slices_needed),
        "slices-seen": str(objective.slices_seen),
        "min-assignments": str(objective.min_assignments),
    }
    return _slo(
        SloName.OVERFLOW, "Expert overflow before reroute", notes, "Timeslices",
        {
            "ratioMetric": {
                "counter": True,
                "bad": _metric("sum(moe_overflow_assignments_total)"),
                "total": _metric("sum(moe_assignments_total)"),
            }
        },
        {
            "target": objective.target,
            "timeSliceTarget": round(1.0 - objective.threshold, 9),
            "timeSliceWindow": _minutes(objective.slice_seconds),
        },
    )  # fmt: skip


def _slo(
    name: SloName, title: str, notes: dict[str, str], method: str, indicator: dict[str, object],
    objective: dict[str, object],
) -> dict[str, object]:  # fmt: skip
    annotations = {"slo": name.value, **notes}
    return {
        "apiVersion": API_VERSION,
        "kind": "SLO",
        "metadata": {
            "name": name.value,
            "displayName": title,
            "annotations": {PREFIX + key: value for key, value in annotations.items()},
        },
        "spec": {
            "service": SERVICE,
            "indicator": {"metadata": {"name": f"{name.value}-indicator"}, "spec": indicator},
            "timeWindow": [{"duration": "30d", "isRolling": True}],
            "budgetingMethod": method,
            "objectives": [objective],
        },
    }


def _metric(query: str) -> dict[str, object]:
    return {"metricSource": {"type": "Prometheus", "spec": {"query": query}}}


def _condition(tier: BurnTier) -> dict[str, object]:
    notes = {
        "long-seconds": tier.long_seconds, "short-seconds": tier.short_seconds,
        "min-events": tier.min_events, "consumer": tier.consumer.value,
    }  # fmt: skip
    return {
        "apiVersion": API_VERSION,
        "kind": "AlertCondition",
        "metadata": {
            "name": tier.name,
            "annotations": {PREFIX + key: str(value) for key, value in notes.items()},
        },
        "spec": {
            "severity": tier.consumer.value,
            "condition": {
                "kind": "burnrate",
                "op": "gt",
                "threshold": tier.burn,
                "lookbackWindow": _minutes(tier.long_seconds),
                "alertAfter": _minutes(tier.short_seconds),
            },
        },
    }


def _minutes(seconds: float) -> str:
    """Whole minutes, rounded up: the smallest unit that the specification has."""
    return f"{max(1, math.ceil(seconds / 60))}m"
