"""Alerts on telemetry that stops, engines that do not answer, and the control plane itself."""

from alerts.rules import Alert, Group, Severity, series

ENGINE_JOB, CONTROL_JOB = "trimtab-engine", "trimtab-controlplane"
WHO = "{{ $labels.engine }}"
INSTANCE = "{{ $labels.instance }}"

PLATFORM = Group(
    "trimtab-platform",
    (
        Alert(
            "MoeTelemetryAbsent", f"max by (engine) ({series('trimtab_frame_age_seconds')}) > 15",
            "30s", Severity.PAGE, "An engine sends no telemetry.",
            f"The newest frame of {WHO} is {{{{ $value | humanizeDuration }}}} old: the governor "
            "does not act on what it does not see.",
        ),
        Alert(
            "MoeTelemetryMissing", f"absent({series('trimtab_frame_age_seconds')})", "2m",
            Severity.PAGE, "Nobody says how old the telemetry is.",
            "No control plane reports frames of any engine: it is down, not scraped, or has no "
            "engine.",
        ),
        Alert(
            "MoeTelemetryGaps",
            f"sum by (engine) (increase({series('trimtab_frame_gaps_total')}[10m])) > 0", "0s",
            Severity.TICKET, "Frames were lost.",
            f"{{{{ $value | humanize }}}} frames of {WHO} never arrived in the last 10 minutes.",
        ),
        Alert(
            "MoeFramesDropped",
            f"sum by (model, engine) (increase({series('moe_engine_frames_total')}"
            '{outcome="dropped"}[10m])) > 0', "0s",
            Severity.TICKET, "An engine drops frames.",
            f"{WHO} dropped {{{{ $value | humanize }}}} frames in 10 minutes: its buffer is full, "
            "or they were refused.",
        ),
        Alert(
            "MoeEngineDown", f'up{{job="{ENGINE_JOB}"}} == 0', "1m",
            Severity.PAGE, "An engine is down.",
            f"{INSTANCE} does not answer its scrape.",
        ),
        Alert(
            "TrimtabDown", f'up{{job="{CONTROL_JOB}"}} == 0', "1m",
            Severity.PAGE, "The control plane is down.",
            f"{INSTANCE} does not answer its scrape. Engines keep serving; nothing is governed.",
        ),
        Alert(
            "TrimtabEngineUnreachable",
            f"min by (engine) ({series('trimtab_engine_reachable')}) == 0", "1m",
            Severity.PAGE, "The control plane cannot reach an engine.",
            f"The admin API of {WHO} does not answer: no action is possible.",
        ),
        Alert(
            "TrimtabNoLeader", f"sum({series('trimtab_leader')}) == 0", "1m",
            Severity.PAGE, "No control plane holds the lease.",
            "Replicas answer, but none evaluates or acts.",
        ),
        Alert(
            "TrimtabActionStuck", f"max by (engine) ({series('trimtab_action_in_flight')}) > 0",
            "30m", Severity.TICKET, "An action does not end.",
            f"An action on {WHO} has been neither verified nor reverted for 30 minutes.",
        ),
        Alert(
            "TrimtabJobFailing",
            f"sum by (job) (increase({series('trimtab_job_failures_total')}[15m])) > 0", "5m",
            Severity.TICKET, "A scheduled job fails.",
            "{{ $labels.job }} raised {{ $value | humanize }} times in 15 minutes.",
        ),
    ),
)  # fmt: skip
