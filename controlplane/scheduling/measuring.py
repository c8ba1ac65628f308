"""`actuator.ports.Measuring` over the history."""

from controlplane.actuator import bias_snapshots
from controlplane.db.database import Database
from controlplane.policy.measurement import Measurement, measure
from controlplane.policy.policy import Policy
from controlplane.scheduling.references import LoadReferences
from controlplane.scheduling.snapshots import SnapshotBuilder


class HistoryMeasuring:
    """What operators' acts need of the history."""

    def __init__(
        self, database: Database, builder: SnapshotBuilder, references: LoadReferences
    ) -> None:
        self._database = database
        self._builder = builder
        self._references = references

    def before(self, engine_id: str, policy: Policy) -> dict[str, Measurement]:
        """The engine over its newest windows."""
        windows = self._builder.newest_windows(engine_id, policy)
        return {engine_id: measure(windows[-policy.detectors.windows_seen :], policy.slo)}

    def stored_biases(self) -> frozenset[str]:
        """Bias versions whose payload the control plane holds."""
        with self._database.read() as session:
            return bias_snapshots.stored_hashes(session)

    def capture_reference(
        self, engine_id: str, bias_hash: str | None, *, author: str, seconds: float
    ) -> int:
        """Take the expert shares under a bias that was just marked good."""
        return self._references.capture(engine_id, bias_hash, author=author, seconds=seconds)
