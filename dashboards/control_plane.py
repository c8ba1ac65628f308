"""Dashboard of the control plane itself: is it fed, does it decide, does it act."""

from grafana_foundation_sdk.builders import dashboard as builders

from dashboards import queries as q
from dashboards.frame import Panels, new_dashboard
from dashboards.panels import Query, lines


def build() -> builders.Dashboard:
    """The dashboard."""
    return new_dashboard(
        "Trimtab / Control plane", "trimtab-control-plane",
        "Telemetry in, findings, decisions and actions out, and the jobs between.",
        {"Telemetry": _telemetry(), "Decisions": _decisions(), "Process": _process()},
    )  # fmt: skip


def _telemetry() -> Panels:
    return [
        lines(
            "Frames", [Query(q.rate("trimtab_ingest_frames_total", ("engine", "outcome")),
                             "{{outcome}} {{engine}}")],
            unit="cps", axis="Frames a second", span=8, about="One a second from each engine.",
        ),
        lines(
            "Age of the newest frame",
            [Query(q.worst("trimtab_frame_age_seconds", ("engine",)), "{{engine}}")],
            unit="s", axis="Age", threshold=15, span=8,
            about="The governor does not act on an engine that it does not hear.",
        ),
        lines(
            "Frames lost",
            [Query(q.rate("trimtab_frame_gaps_total", ("engine",)), "never arrived {{engine}}"),
             Query(q.rate("moe_engine_frames_total", ("engine",), outcome="dropped"),
                   "dropped by {{engine}}")],
            unit="cps", axis="Frames a second", span=8, about="Gaps stay gaps in the history.",
        ),
        lines(
            "Time to make frames durable",
            [Query(q.quantile(0.99, "trimtab_ingest_seconds"), "p99")], unit="s", axis="Time",
            about="A frame is answered only when it is on disk.",
        ),
        lines(
            "Frames that wait for the writer",
            [Query(q.worst("trimtab_ingest_queue_frames", ()), "frames")], unit="short",
            axis="Frames", about="Full: engines are answered 429 and buffer.",
        ),
        lines(
            "Scrapes of observe-only engines",
            [Query(q.rate("trimtab_scrapes_total", ("engine", "outcome")),
                   "{{outcome}} {{engine}}")],
            unit="cps", axis="Scrapes a second",
            about="vLLM and SGLang servers that are read by their metrics and never acted on.",
        ),
    ]  # fmt: skip


def _decisions() -> Panels:
    return [
        lines(
            "Findings that fire",
            [Query(q.worst("trimtab_findings_firing", ("engine", "detector")),
                   "{{detector}} {{engine}}")],
            unit="short", axis="Findings", span=8, about="By detector.",
        ),
        lines(
            "Decisions",
            [Query(q.rate("trimtab_decisions_total", ("policy", "reason")),
                   "{{policy}} {{reason}}")],
            unit="cps", axis="Decisions a second", span=8,
            about="By reason, the reasons not to act included.",
        ),
        lines(
            "Actions in flight",
            [Query(q.worst("trimtab_action_in_flight", ("engine",)), "{{engine}}")],
            unit="short", axis="Actions", span=8, about="At most one an engine.",
        ),
        lines(
            "Alerts received",
            [Query(q.rate("trimtab_alerts_received_total", ("outcome",)), "{{outcome}}")],
            unit="cps", axis="Alerts a second", about="From Alertmanager, duplicates apart.",
        ),
        lines(
            "Audit events", [Query(q.rate("trimtab_audit_events_total"), "events")],
            unit="cps", axis="Events a second", about="Every change and who made it.",
        ),
    ]  # fmt: skip


def _process() -> Panels:
    return [
        lines(
            "Jobs p99", [Query(q.quantile(0.99, "trimtab_job_seconds", ("job",)), "{{job}}")],
            unit="s", axis="Run time", span=8, about="Scheduled jobs of the leader.",
        ),
        lines(
            "Jobs that failed",
            [Query(q.rate("trimtab_job_failures_total", ("job",)), "{{job}}")],
            unit="cps", axis="Failures a second", span=8, about="Should be zero.",
        ),
        lines(
            "Leader, engines reachable",
            [Query(f"sum ({q.selector('trimtab_leader')})", "leaders"),
             Query(q.worst("trimtab_engine_reachable", ("engine",)), "{{engine}}")],
            unit="short", axis="Count", threshold=None, span=8,
            about="Exactly one leader; 1 for an engine whose admin API answers.",
        ),
    ]  # fmt: skip
