"""What the actuator needs from others: engines, telemetry and a verdict."""

from typing import Protocol

from controlplane.actuator.action import Action
from controlplane.actuator.engine_admin import EngineAdmin
from controlplane.actuator.world import Telemetry
from controlplane.policy.measurement import Measurement
from controlplane.policy.policy import Policy
from controlplane.policy.verdict import VerifyResult


class EngineAdmins(Protocol):
    """The configured engines' admin APIs."""

    def of(self, engine_id: str) -> EngineAdmin:
        """The admin API of an engine; NotFoundError when it is not configured."""
        ...


class Evidence(Protocol):
    """What the stored frames say; the scheduling layer reads them from the history."""

    def telemetry(self, engine_id: str, at: float) -> Telemetry:
        """Generation, freshness and request durations of an engine."""
        ...

    def verification(self, action: Action, at: float) -> VerifyResult:
        """The verdict on the engines that run an action's change."""
        ...


class PhaseListener(Protocol):
    """Told after a transition is stored; never before."""

    def __call__(self, before: Action | None, after: Action) -> None:
        """`before` is None for a new action."""
        ...


class Measuring(Protocol):
    """What operators' acts need of the history; the scheduling layer reads it."""

    def before(self, engine_id: str, policy: Policy) -> dict[str, Measurement]:
        """The engine as it is now, for comparison after a change."""
        ...

    def stored_biases(self) -> frozenset[str]:
        """Bias versions whose payload the control plane holds."""
        ...

    def capture_reference(
        self, engine_id: str, bias_hash: str | None, *, author: str, seconds: float
    ) -> int:
        """Take the expert shares under a bias that was just marked good; gives the windows."""
        ...
