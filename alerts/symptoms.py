"""Alerts on the article's five metrics, on the router bias, and on a rank that lags.

Bounds and windows: the metric definitions that the product documents; every bound is in the
runbook with its reason.
"""

from alerts.recording import (
    ALL_TO_ALL_P99,
    DROPPED,
    EFFECTIVE,
    ENGINE,
    LAYERS,
    OVERFLOW,
)
from alerts.rules import Alert, Group, Severity, series
from contract.histograms import TPOT_OBJECTIVE_SECONDS

PREFILL_SECONDS = 0.005
DECODE_SHARE = 0.4
WHO, OP = "{{ $labels.engine }}", "{{ $labels.op }}"
VALUE, NUMBER = "{{ $value }}", "{{ $value | humanize }}"
SHARE, TIME = "{{ $value | humanizePercentage }}", "{{ $value | humanizeDuration }}"


def _worst(name: str) -> str:
    return f"max by ({ENGINE}) ({series(name)})"


_WAIT = f"rate({series('moe_all_to_all_rank_wait_seconds_total')}[5m])"

SYMPTOMS = Group(
    "trimtab-symptoms",
    (
        Alert(
            "MoeExpertLoadSkew", f"{_worst('moe_card_load_cv_debiased_ratio')} > 0.3", "3m",
            Severity.TICKET, "Load of the ranks is uneven.",
            f"Debiased load CV of the worst layer of {WHO} is {VALUE}, above 0.3.",
        ),
        Alert(
            "MoeExpertLoadSkewSevere", f"{_worst('moe_card_load_cv_debiased_ratio')} > 0.6", "3m",
            Severity.PAGE, "Load of the ranks is very uneven.",
            f"Debiased load CV of the worst layer of {WHO} is {VALUE}, above 0.6.",
        ),
        Alert(
            "MoeLoadSharesMoved", f"{_worst('moe_load_psi_ratio')} > 0.25", "3m",
            Severity.TICKET, "Expert shares have left those of the last good bias.",
            f"Population stability index of {WHO} is {VALUE}, above 0.25: traffic or "
            "router changed.",
        ),
        Alert(
            "MoeAllToAllSlowPrefill",
            f'max by ({ENGINE}, op) ({ALL_TO_ALL_P99}{{phase="prefill"}}) > {PREFILL_SECONDS}',
            "5m", Severity.TICKET, "All-to-all of prefill steps is slow.",
            f"p99 of one layer's {OP} of {WHO} is {TIME}, "
            "above 5 ms.",
        ),
        Alert(
            "MoeAllToAllSlowDecode",
            f'max by ({ENGINE}, op) ({ALL_TO_ALL_P99}{{phase="decode"}}) > on ({ENGINE}) '
            f"group_left () ({DECODE_SHARE * TPOT_OBJECTIVE_SECONDS:g} / {LAYERS})",
            "5m", Severity.TICKET, "All-to-all of decode steps is slow.",
            f"p99 of one layer's {OP} of {WHO} is {TIME}: "
            "over all layers more than 40 % of the objective for a token.",
        ),
        Alert(
            "MoeOverflowHigh", f"{OVERFLOW} > 0.05", "2m",
            Severity.TICKET, "More than 5 % of assignments overflow.",
            f"{SHARE} of the assignments of {WHO} were beyond capacity.",
        ),
        Alert(
            "MoeAssignmentsDropped", f"{DROPPED} > 0.01", "10m",
            Severity.TICKET, "Assignments are dropped.",
            f"{SHARE} of the assignments of {WHO} were computed by no "
            "expert.",
        ),
        Alert(
            "MoeTokensAllDropped",
            f"sum by ({ENGINE}) (rate({series('moe_tokens_all_dropped_total')}[5m])) > 0", "2m",
            Severity.PAGE, "Tokens lose every expert.",
            f"{NUMBER} tokens a second of {WHO} were computed by no routed expert.",
        ),
        Alert(
            "MoeCapacityEffectiveLow", f"{EFFECTIVE} < 0.95", "5m",
            Severity.TICKET, "Less than 95 % of assignments are executed.",
            f"{WHO} executes {SHARE} of its assignments.",
        ),
        Alert(
            "MoeCapacityEffectiveCritical", f"{EFFECTIVE} < 0.8", "1m",
            Severity.PAGE, "Less than 80 % of assignments are executed.",
            f"{WHO} executes {SHARE} of its assignments.",
        ),
        Alert(
            "MoeBiasDrift", f"max by (engine) ({series('trimtab_bias_drift_tau_ratio')}) > 0.3",
            "30s", Severity.PAGE, "The live router bias adds skew.",
            f"Against the last good bias on the same tokens, the bias of {WHO} adds a skew of at "
            f"least {VALUE} in its worst layer, above 0.3.",
            {"cause": "router_bias"},
        ),
        Alert(
            "MoeBiasFarFromLastGood", f"{_worst('moe_router_bias_distance')} > 0.05", "5m",
            Severity.TICKET, "The live router bias is far from the last good one.",
            f"The largest difference of an expert's bias of {WHO} is {VALUE}, above 0.05.",
            {"cause": "router_bias"},
        ),
        Alert(
            "MoeStragglerRank",
            f"min by ({ENGINE}) ({_WAIT}) < 0.25 * avg by ({ENGINE}) ({_WAIT}) "
            f"and avg by ({ENGINE}) ({_WAIT}) > 0.1",
            "10m", Severity.TICKET, "One rank keeps the others waiting.",
            f"One rank of {WHO} waits {SHARE} of the time, the average "
            "rank more than four times that.",
        ),
    ),
)  # fmt: skip
