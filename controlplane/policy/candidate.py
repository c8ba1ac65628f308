"""A change that a rule would like to make, before the gates have had their say."""

from dataclasses import dataclass

from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.slo.status import SloName

Value = str | int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One wish of a rule, in order of preference.

    Attributes:
        knob, current, target, direction: the change; direction is the sign of target − current.
        reason: why it is wanted.
        target_slo: the breached SLO that it should mend, None when nothing is breached.
        explanation: one plain sentence.
        predicted: expected effect, with its source.
        blocked: why the rule itself gives up (at a bound, inert, no gain), None when it does not.
        relax: a step back to the baseline.
    """

    knob: Knob
    current: Value
    target: Value
    direction: int
    reason: Reason
    explanation: str
    predicted: str
    target_slo: SloName | None = None
    blocked: Reason | None = None
    relax: bool = False

    @property
    def key(self) -> str:
        """Names the change for quarantine, as `Proposal.key` does."""
        return f"{self.knob}={self.target}"
