"""Every series of both planes, declared once: code, dashboards, alerts and docs derive from it.

Base labels of engine series are `model` and `engine`. Never a layer × expert series: the full
matrix goes by frames. At most 1,000 series per EP group.
"""

from enum import StrEnum

from contract import histograms
from contract.model import ContractModel

ENGINE_LABELS = ("model", "engine")


class Kind(StrEnum):
    """Prometheus type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Plane(StrEnum):
    """Which program exposes a series."""

    ENGINE = "engine"
    CONTROL = "controlplane"


class Metric(ContractModel):
    """One series family.

    Attributes:
        name: name on `/metrics`; counters end in `_total`.
        kind: Prometheus type.
        help: one sentence with the unit.
        labels: labels beyond the base labels.
        buckets: upper bounds of a histogram.
        plane: program that exposes it.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    plane: Plane = Plane.ENGINE

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Base labels of its plane, then its own."""
        return (ENGINE_LABELS if self.plane is Plane.ENGINE else ()) + self.labels


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=text, labels=labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, help=text, labels=labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, help=text, labels=labels, buckets=buckets)


def _control(name: str, kind: Kind, text: str, *labels: str,
             buckets: tuple[float, ...] = ()) -> Metric:  # fmt: skip
    return Metric(
        name=name, kind=kind, help=text, labels=labels, buckets=buckets, plane=Plane.CONTROL
    )


_ENGINE: tuple[Metric, ...] = (
    _counter("moe_assignments_total", "Token-to-expert assignments before capacity.", "layer"),
    _counter("moe_executed_assignments_total", "Assignments that an expert computed.", "layer"),
    _counter("moe_overflow_assignments_total",
             "Assignments beyond capacity, per step, before reroute.", "layer"),
    _counter("moe_rerouted_assignments_total", "Overflow that another expert took.", "layer"),
    _counter("moe_spilled_assignments_total", "Overflow that a replica took.", "layer"),
    _counter("moe_dropped_assignments_total", "Overflow that no expert took.", "layer"),
    _counter("moe_overflow_at_rung_assignments_total",
             "Overflow that each capacity factor would have had.", "capacity_factor"),
    _counter("moe_tokens_all_dropped_total", "Tokens whose every assignment was dropped."),
    _gauge("moe_gate_mass_kept_ratio", "Gate weight that survived dropping, of all gate weight."),
    _gauge("moe_expert_load_cv_ratio",
           "Population std over mean of expert load; raw, not corrected for sampling noise.",
           "layer"),
    _gauge("moe_expert_load_cv_debiased_ratio",
           "Expert load CV less its sampling noise (E-k)/(Tk).", "layer"),
    _gauge("moe_card_load_cv_ratio", "Population std over mean of load per rank; raw.", "layer"),
    _gauge("moe_card_load_cv_debiased_ratio", "Card load CV less its sampling noise.", "layer"),
    _gauge("moe_load_max_over_mean_ratio", "Largest expert load over the mean.", "layer"),
    _gauge("moe_load_top_share_ratio", "Share of assignments on the busiest 16 % of experts.",
           "layer"),
    _gauge("moe_load_psi_ratio", "Population stability index against the last-good shares.",
           "layer"),
    _counter("moe_card_assignments_total", "Executed assignments by computing rank.", "rank"),
    _gauge("moe_capacity_factor_configured_ratio", "Configured C; 0 when dropless."),
    _gauge("moe_capacity_factor_required_ratio", "Smallest C without overflow, last interval."),
    _gauge("moe_capacity_factor_effective_ratio", "Executed over all assignments."),
    _gauge("moe_capacity_slots", "Slots of one expert, mean of the last interval's steps."),
    _histogram("moe_all_to_all_seconds", "All-to-all time of one layer, slowest rank.",
               histograms.ALL_TO_ALL_EXPOSED, "op", "phase", "part"),
    _counter("moe_all_to_all_bytes_total", "All-to-all payload sent to other ranks.", "op"),
    _histogram("moe_all_to_all_message_bytes", "All-to-all payload per peer message.",
               histograms.MESSAGE_EXPOSED, "op"),
    _counter("moe_all_to_all_rank_wait_seconds_total",
             "Time a rank waited for its peers; the straggler waits least.", "rank"),
    _histogram("gen_ai_server_time_to_first_token_seconds", "Time to first token.",
               histograms.TTFT_EXPOSED),
    _histogram("gen_ai_server_time_per_output_token_seconds",
               "Mean time per output token after the first, per request.",
               histograms.TPOT_EXPOSED),
    _histogram("gen_ai_server_request_duration_seconds", "Request duration.",
               histograms.REQUEST_EXPOSED),
    _histogram("moe_engine_step_seconds", "Engine step time.", histograms.STEP_EXPOSED, "phase"),
    _histogram("moe_engine_queue_seconds", "Time from arrival to admission.",
               histograms.QUEUE_EXPOSED),
    _histogram("moe_engine_inter_token_seconds", "Gap between output tokens.",
               histograms.TPOT_EXPOSED),
    _gauge("moe_engine_running_requests", "Running sequences."),
    _gauge("moe_engine_queued_requests", "Requests that wait for admission."),
    _gauge("moe_engine_max_concurrency", "Configured running sequences of the EP group."),
    _gauge("moe_engine_chunk_size_tokens", "Configured token budget of a step."),
    _gauge("moe_engine_kv_blocks_used_ratio", "KV blocks in use, of all."),
    _gauge("moe_engine_config_generation", "Live generation of the runtime config."),
    _gauge("moe_router_bias_version", "Integer version of the configured router bias."),
    _gauge("moe_router_bias_distance", "Largest difference of the live bias to the last-good."),
    _counter("moe_engine_requests_total", "Requests by outcome.", "outcome"),
    _counter("moe_engine_tokens_total", "Tokens computed.", "phase"),
    _counter("moe_engine_frames_total", "Telemetry frames by outcome.", "outcome"),
)  # fmt: skip

_CONTROL: tuple[Metric, ...] = (
    _control("trimtab_ingest_frames_total", Kind.COUNTER, "Frames received by outcome.",
             "engine", "outcome"),
    _control("trimtab_ingest_seconds", Kind.HISTOGRAM, "Time to make a batch of frames durable.",
             buckets=histograms.STEP_SECONDS),
    _control("trimtab_ingest_queue_frames", Kind.GAUGE, "Frames that wait for the writer."),
    _control("trimtab_frame_age_seconds", Kind.GAUGE, "Age of an engine's newest frame.",
             "engine"),
    _control("trimtab_frame_gaps_total", Kind.COUNTER, "Frames known to be lost.", "engine"),
    _control("trimtab_scrapes_total", Kind.COUNTER,
             "Scrapes of observe-only engines by outcome.", "engine", "outcome"),
    _control("trimtab_bias_drift_tau_ratio", Kind.GAUGE,
             "Lower confidence bound of the skew that the live bias adds, worst layer.",
             "engine"),
    _control("trimtab_expert_skew_tau_ratio", Kind.GAUGE,
             "Persistent expert skew (tau), worst layer.", "engine"),
    _control("trimtab_findings_firing", Kind.GAUGE, "Findings that fire now.",
             "engine", "detector"),
    _control("trimtab_slo_bad_ratio", Kind.GAUGE, "Bad share of events, act-fast long window.",
             "engine", "slo"),
    _control("trimtab_slo_burn_rate_ratio", Kind.GAUGE, "Burn rate over the window.",
             "engine", "slo", "window"),
    _control("trimtab_slo_budget_remaining_ratio", Kind.GAUGE, "Error budget left of the last 3 d.",
             "engine", "slo"),
    _control("trimtab_decisions_total", Kind.COUNTER, "Decisions by reason code.",
             "engine", "policy", "reason"),
    _control("trimtab_actions_total", Kind.COUNTER, "Actions by knob and outcome.",
             "engine", "knob", "outcome"),
    _control("trimtab_action_in_flight", Kind.GAUGE, "Actions that are not yet final.",
             "engine"),
    _control("trimtab_engine_reachable", Kind.GAUGE, "1 when the engine's admin API answers.",
             "engine"),
    _control("trimtab_alerts_received_total", Kind.COUNTER, "Webhook alerts by outcome.",
             "outcome"),
    _control("trimtab_job_seconds", Kind.HISTOGRAM, "Run time of a scheduled job.", "job",
             buckets=histograms.STEP_SECONDS),
    _control("trimtab_job_failures_total", Kind.COUNTER, "Scheduled jobs that raised.", "job"),
    _control("trimtab_leader", Kind.GAUGE, "1 while this process holds the lease."),
    _control("trimtab_audit_events_total", Kind.COUNTER, "Audit events written."),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ENGINE + _CONTROL}
