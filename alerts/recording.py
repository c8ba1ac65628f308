"""Recording rules: the ratios and quantiles that alerts and people ask for again and again."""

from alerts.rules import Group, Recording, buckets, series

ENGINE = "model, engine"
OVERFLOW = "engine:moe_overflow:ratio_rate1m"
OVERFLOW_LAYER = "engine_layer:moe_overflow:ratio_rate5m"
DROPPED = "engine:moe_dropped:ratio_rate5m"
EFFECTIVE = "engine:moe_capacity_factor_effective:ratio_rate5m"
ALL_TO_ALL_P99 = "engine_op_phase_part:moe_all_to_all_seconds:p99_rate5m"
TTFT_P99 = "engine:gen_ai_server_time_to_first_token_seconds:p99_rate5m"
TPOT_P99 = "engine:gen_ai_server_time_per_output_token_seconds:p99_rate5m"
LAYERS = "engine:moe_layers:count"


def share(part: str, by: str, window: str) -> str:
    """Rate of a counter over the rate of all assignments."""
    whole = series("moe_assignments_total")
    return (
        f"sum by ({by}) (rate({series(part)}[{window}])) / sum by ({by}) (rate({whole}[{window}]))"
    )


def p99(name: str, by: str) -> str:
    """99th percentile over 5 minutes, interpolated inside buckets."""
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({buckets(name)}[5m])))"


RECORDING = Group(
    "trimtab-recording",
    (
        Recording(OVERFLOW, share("moe_overflow_assignments_total", ENGINE, "1m")),
        Recording(
            OVERFLOW_LAYER, share("moe_overflow_assignments_total", f"{ENGINE}, layer", "5m")
        ),
        Recording(DROPPED, share("moe_dropped_assignments_total", ENGINE, "5m")),
        Recording(EFFECTIVE, share("moe_executed_assignments_total", ENGINE, "5m")),
        Recording(ALL_TO_ALL_P99, p99("moe_all_to_all_seconds", f"{ENGINE}, op, phase, part")),
        Recording(TTFT_P99, p99("gen_ai_server_time_to_first_token_seconds", ENGINE)),
        Recording(TPOT_P99, p99("gen_ai_server_time_per_output_token_seconds", ENGINE)),
        Recording(LAYERS, f"count by ({ENGINE}) ({series('moe_assignments_total')})"),
    ),
)
