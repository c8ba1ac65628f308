"""The outcome of one evaluation: an act, or a reason for none. "Why not" is recorded too."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from controlplane.policy.knob import Knob, Mode
from controlplane.slo.status import SloName


class Reason(StrEnum):
    """Machine reason codes of a decision."""

    BIAS_DRIFT = "bias_drift"
    OVERFLOW_BREACH = "overflow_breach"
    TPOT_BREACH = "tpot_breach"
    TTFT_BREACH = "ttft_breach"
    RELAX = "relax"
    HEALTHY = "healthy"
    INCONCLUSIVE = "inconclusive"
    OBSERVE_ONLY = "observe_only"
    STALE = "stale"
    UNREACHABLE = "unreachable"
    FROZEN = "frozen"
    IN_FLIGHT = "in_flight"
    COOLDOWN = "cooldown"
    FLAP_BUDGET = "flap_budget"
    PINNED = "pinned"
    QUARANTINED = "quarantined"
    AWAITING_APPROVAL = "awaiting_approval"
    SHADOW = "shadow"
    LITERAL_RULE = "literal_rule"
    OUTRANKED = "outranked"
    MODE_OFF = "mode_off"
    KNOB_INERT = "knob_inert"
    KNOB_ABSENT = "knob_absent"
    NO_LAST_KNOWN_GOOD = "no_last_known_good"
    WHATIF_NO_GAIN = "whatif_no_gain"
    NOT_THE_BIAS = "not_the_bias"
    GUARD = "guard"
    AT_BOUND = "at_bound"
    NO_FEASIBLE_ACTION = "no_feasible_action"
    BUDGET_SPENT = "budget_spent"


class Proposal(BaseModel):
    """One absolute change of one knob. `target` is a rung, an integer, or a bias hash."""

    model_config = ConfigDict(frozen=True)

    knob: Knob
    current: str | int | None
    target: str | int | None
    direction: int
    target_slo: SloName | None
    relax: bool = False
    lease_seconds: float | None = None

    @property
    def key(self) -> str:
        """Names the change for quarantine: knob and target."""
        return f"{self.knob}={self.target}"


class Alternative(BaseModel):
    """A change that was considered, with its predicted effect and why it lost."""

    model_config = ConfigDict(frozen=True)

    knob: Knob
    target: str | int | None
    predicted: str
    lost_because: Reason
    explanation: str


class Decision(BaseModel):
    """What `decide` returns. `proposal` is None when nothing is to be done.

    `escalate` asks for a human (page): there is a breach that no allowed act can mend.
    """

    model_config = ConfigDict(frozen=True)

    policy: str
    mode: Mode
    reason: Reason
    explanation: str
    proposal: Proposal | None = None
    alternatives: tuple[Alternative, ...] = ()
    escalate: bool = False
