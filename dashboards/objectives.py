"""Dashboard of the three objectives: first token, output tokens, overflow; and what was done."""

from grafana_foundation_sdk.builders import dashboard as builders

from contract.histograms import TPOT_OBJECTIVE_SECONDS, TTFT_OBJECTIVE_SECONDS
from dashboards import queries as q
from dashboards.frame import Panels, new_dashboard
from dashboards.panels import Query, lines, number

TTFT = "gen_ai_server_time_to_first_token_seconds"
TPOT = "gen_ai_server_time_per_output_token_seconds"
OVERFLOW = q.ratio("moe_overflow_assignments_total", "moe_assignments_total", ("engine",))


def build() -> builders.Dashboard:
    """The dashboard."""
    return new_dashboard(
        "Trimtab / Objectives", "trimtab-objectives",
        "Time to first token, time per output token and expert overflow, and the actions taken.",
        {
            "Now": _now(), "Latency": _latency(), "Capacity": _capacity(),
            "Requests": _requests(), "Governor": _governor(),
        },
    )  # fmt: skip


def _now() -> Panels:
    good = (
        ("First token in time", TTFT, TTFT_OBJECTIVE_SECONDS),
        ("Output tokens in time", TPOT, TPOT_OBJECTIVE_SECONDS),
    )
    shares = [
        number(
            title, Query(q.share_under(name, bound), "share"), unit="percentunit", span=8,
            threshold=0.99, above_is_bad=False,
            about=f"Share of requests at or under {bound:g} s; of a server without that bucket "
            "bound, under its next one. Objective: 99 %.",
        )
        for title, name, bound in good
    ]  # fmt: skip
    overflow = number(
        "Overflow", Query(
            q.ratio("moe_overflow_assignments_total", "moe_assignments_total"), "overflow"
        ),
        unit="percentunit", threshold=0.05, above_is_bad=True, span=8,
        about="Assignments beyond capacity of all assignments, per step, before reroute. "
        "Objective: at most 5 % in 99 % of 10 s slices.",
    )  # fmt: skip
    return [*shares, overflow]


def _latency() -> Panels:
    objectives = [
        lines(
            f"{title} by quantile",
            [Query(q.quantile(p, name, ("engine",)), f"p{p * 100:g} {{{{engine}}}}")
             for p in (0.99, 0.9, 0.5)],
            unit="s", axis=title, threshold=bound,
            about=f"Interpolated inside buckets; {bound:g} s is a bucket bound of Trimtab's "
            "engines, so their share under it is exact.",
        )
        for title, name, bound in (
            ("Time to first token", TTFT, TTFT_OBJECTIVE_SECONDS),
            ("Time per output token", TPOT, TPOT_OBJECTIVE_SECONDS),
        )
    ]  # fmt: skip
    parts = [
        lines(
            f"{title} p99", [Query(q.quantile(0.99, name, ("engine",)), "{{engine}}")], unit="s",
            axis=title, span=8, about=about,
        )
        for title, name, about in (
            ("Queue time", "moe_engine_queue_seconds", "Arrival to admission; part of the TTFT."),
            ("Gap between tokens", "moe_engine_inter_token_seconds",
             "Every gap counts; a request's TPOT is its mean gap."),
            ("Request duration", "gen_ai_server_request_duration_seconds",
             "Arrival to last token."),
        )
    ]  # fmt: skip
    return [*objectives, *parts]


def _capacity() -> Panels:
    factors = [
        Query(q.worst(f"moe_capacity_factor_{kind}_ratio", ("engine",)), f"{kind} {{{{engine}}}}")
        for kind in ("configured", "required", "effective")
    ]
    rung = q.rate("moe_overflow_at_rung_assignments_total", ("engine", "capacity_factor"))
    per_rung = f"{rung} / ignoring(capacity_factor) group_left {_assignments()}"
    return [
        lines(
            "Overflow", [Query(OVERFLOW, "{{engine}}")], unit="percentunit",
            axis="Share of assignments", threshold=0.05, span=8,
            about="Per step, before reroute. Above 5 % the governor looks for a larger capacity.",
        ),
        lines(
            "Overflow that each capacity factor would have",
            [Query(per_rung, "C = {{capacity_factor}} {{engine}}")], unit="percentunit",
            axis="Share of assignments", threshold=0.04, span=8,
            about="The governor picks the smallest factor that stays at or under 4 %.",
        ),
        lines(
            "Capacity factor", factors, unit="none", axis="Factor or ratio", span=8,
            about="Configured; smallest that would not overflow; executed over all assignments "
            "(warn under 0.95, page under 0.8). Configured is 0 when dropless.",
        ),
    ]  # fmt: skip


def _assignments() -> str:
    return q.rate("moe_assignments_total", ("engine",))


def _requests() -> Panels:
    gauges = ("running_requests", "queued_requests", "max_concurrency")
    step = "moe_engine_step_seconds"
    return [
        lines(
            "Requests", [Query(q.rate("moe_engine_requests_total", ("outcome",)), "{{outcome}}")],
            unit="reqps", axis="Requests a second", span=8,
            about="By outcome. Rejected requests were answered 429 with Retry-After.",
        ),
        lines(
            "Concurrency",
            [Query(q.worst(f"moe_engine_{name}", ("engine",)), f"{name} {{{{engine}}}}")
             for name in gauges],
            unit="short", axis="Requests", span=8,
            about="Running sequences against their limit, and requests that wait.",
        ),
        lines(
            "Step time p99", [Query(q.quantile(0.99, step, ("phase",)), "{{phase}}")], unit="s",
            axis="Step time", span=8, about="A step with any prefill token is a prefill step.",
        ),
        lines(
            "Tokens", [Query(q.rate("moe_engine_tokens_total", ("engine", "phase")),
                             "{{phase}} {{engine}}")],
            unit="cps", axis="Tokens a second", span=8, about="Computed by phase.",
        ),
        lines(
            "Token budget of a step",
            [Query(q.worst("moe_engine_chunk_size_tokens", ("engine",)), "{{engine}}")],
            unit="short", axis="Tokens", span=8, about="Decode tokens first, then prefill chunks.",
        ),
        lines(
            "KV blocks in use",
            [Query(q.worst("moe_engine_kv_blocks_used_ratio", ("engine",)), "{{engine}}")],
            unit="percentunit", axis="Share of blocks", span=8,
            about="At 100 % sequences are preempted.",
        ),
    ]  # fmt: skip


def _governor() -> Panels:
    return [
        lines(
            "Error budget left",
            [Query(q.worst("trimtab_slo_budget_remaining_ratio", ("engine", "slo")),
                   "{{slo}} {{engine}}")],
            unit="percentunit", axis="Share of budget", minimum=None, span=8,
            about="Over the last 3 d, as far as stored; below 0 the objective is missed.",
        ),
        lines(
            "Burn rate",
            [Query(q.worst("trimtab_slo_burn_rate_ratio", ("engine", "slo", "window")),
                   "{{slo}} {{window}} {{engine}}")],
            unit="none", axis="Times the budget", threshold=14.4, span=8,
            about="1 spends the whole budget in its window. Pages at 14.4 over 1 h and 5 min.",
        ),
        lines(
            "Bad share now",
            [Query(q.worst("trimtab_slo_bad_ratio", ("engine", "slo")), "{{slo}} {{engine}}")],
            unit="percentunit", axis="Share of events", span=8,
            about="What the governor looks at: bad events of the last minute.",
        ),
        lines(
            "Actions",
            [Query("sum by (knob, outcome) "
                   f"({q.grown('trimtab_actions_total', '$__rate_interval')})",
                   "{{knob}} {{outcome}}")],
            unit="short", axis="Actions", span=24,
            about="Finished actions by knob and outcome; also drawn as annotations.",
        ),
    ]  # fmt: skip
