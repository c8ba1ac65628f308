"""OpenTelemetry of an engine that sends none: no SDK exporter is imported."""

from engine.telemetry.otel_spans import NoTracer


class NoOpenTelemetry:
    """Sends nothing."""

    def __init__(self) -> None:
        self.tracer = NoTracer()

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""
