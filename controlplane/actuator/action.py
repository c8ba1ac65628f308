"""An action: one change, carried to one or more engines, verified, and taken back if it fails.

    proposed ─ applying ─ settling ─ verifying ─ succeeded
        │          │          │          ├────── reverting ─ reverted
        │          │          │          └────── escalated   (a bad bias is never put back)
        │          │          └───────────────── superseded  (someone else wrote a generation)
        │          └──────────────────────────── failed      (the engine refused; nothing applied)
    awaiting_approval ─ rejected | expired             shadow_logged             stopped (freeze)

The value is frozen; `reconcile` gives the next one, and the store keeps each.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from contract.runtime_config import RuntimeConfig
from controlplane.actuator.engine_admin import Mutation
from controlplane.policy.decision import Proposal
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.measurement import Measurement
from controlplane.policy.policy import VerifyPlan
from controlplane.policy.verdict import VerifyResult
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName


class Phase(StrEnum):
    """Where an action stands."""

    AWAITING_APPROVAL = "awaiting_approval"
    PROPOSED = "proposed"
    APPLYING = "applying"
    SETTLING = "settling"
    VERIFYING = "verifying"
    REVERTING = "reverting"
    SUCCEEDED = "succeeded"
    REVERTED = "reverted"
    SHADOW_LOGGED = "shadow_logged"
    REJECTED = "rejected"
    EXPIRED = "expired"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    FAILED = "failed"
    ESCALATED = "escalated"


IN_FLIGHT = frozenset(
    {Phase.PROPOSED, Phase.APPLYING, Phase.SETTLING, Phase.VERIFYING, Phase.REVERTING}
)
"""Phases that hold their engine group: at most one such action a group."""
OPEN = IN_FLIGHT | {Phase.AWAITING_APPROVAL}
FINAL = frozenset(Phase) - OPEN


class ChangeKind(StrEnum):
    """What is changed."""

    KNOB = "knob"
    BIAS_ROLLBACK = "bias_rollback"
    CONFIG_ROLLBACK = "config_rollback"


class Change(BaseModel):
    """The change in absolute values.

    Attributes:
        kind, knob: what; `knob` is None for a whole config.
        before, after: values of the knob; for a whole config, hashes.
        layers: MoE layers of a bias rollback; None for all.
        config: the whole config that a config rollback restores.
        lease_seconds: time to live on the engine of a degradation.
        relax, direction, target_slo: as proposed.
        expected_etag: ETag that the operator's page showed; another one ends the action.
    """

    model_config = ConfigDict(frozen=True)

    kind: ChangeKind
    knob: Knob | None = None
    before: str | int | None = None
    after: str | int | None = None
    layers: tuple[int, ...] | None = None
    config: RuntimeConfig | None = None
    lease_seconds: float | None = None
    relax: bool = False
    direction: int = 0
    target_slo: SloName | None = None
    expected_etag: str | None = None

    @property
    def key(self) -> str:
        """Names the change for quarantine: knob and target."""
        return f"{self.knob or 'config'}={self.after}"

    @property
    def proposal(self) -> Proposal:
        """The change as verification knows it.

        A whole config has no single knob: it is judged by its guards, beside its capacity factor.
        """
        wanted = self.after if self.config is None else self.config.capacity_factor
        return Proposal(
            knob=self.knob or Knob.CAPACITY_FACTOR, current=self.before, target=wanted,
            direction=self.direction, target_slo=self.target_slo, relax=self.relax,
            lease_seconds=self.lease_seconds,
        )  # fmt: skip

    @property
    def can_revert(self) -> bool:
        """A bias that was rolled away from is bad: it is never put back."""
        return self.kind is not ChangeKind.BIAS_ROLLBACK


class Timing(BaseModel):
    """Durations in seconds, fixed when the action is made.

    Attributes:
        settle: at least this long after applying, before verification counts.
        settle_requests: this many p99 request durations, if that is longer.
        verify: length of the verification window; doubled once when it cannot tell.
        approval: life of a request for approval.
        unreachable: an engine that is silent this long ends the action.
        quarantine: first quarantine of a failed change; doubles up to a day.
    """

    model_config = ConfigDict(frozen=True)

    settle: float = 30.0
    settle_requests: float = 2.0
    verify: float = 120.0
    approval: float = 1800.0
    unreachable: float = 300.0
    quarantine: float = 3600.0


class Judging(BaseModel):
    """What a verification goes by, fixed when the action is made.

    Attributes:
        plan, slo: of the policy at the time.
        before: what was measured just before, by engine.
        window_seconds: length of the windows that are measured.
    """

    model_config = ConfigDict(frozen=True)

    plan: VerifyPlan = VerifyPlan()
    slo: SloSettings = SloSettings()
    before: dict[str, Measurement] = {}
    window_seconds: float = 10.0


class TargetState(StrEnum):
    """What is known of one engine of an action."""

    PENDING = "pending"
    APPLIED = "applied"
    SKIPPED = "skipped"
    REVERTED = "reverted"


class Target(BaseModel):
    """One engine of an action.

    Attributes:
        generation, etag, applied_at: of the generation that the change made.
        config_before: the whole config that was live before.
        revert_generation: of the generation that took the change back.
    """

    model_config = ConfigDict(frozen=True)

    engine_id: str
    state: TargetState = TargetState.PENDING
    generation: int | None = None
    etag: str | None = None
    applied_at: float | None = None
    config_before: RuntimeConfig | None = None
    revert_generation: int | None = None


class IntentStep(StrEnum):
    """What an outstanding request does."""

    UPLOAD = "upload"
    APPLY = "apply"
    REVERT = "revert"


class Intent(BaseModel):
    """A request that is about to be, or may have been, sent. Stored before it leaves."""

    model_config = ConfigDict(frozen=True)

    engine_id: str
    step: IntentStep
    mutation: Mutation
    issued_at: float
    sends: int = 0


class Action(BaseModel):
    """One action; see the module for its phases.

    Attributes:
        action_id: also the stem of its idempotency keys.
        decision_id: the decision that made it; "" for an operator's own.
        engine_id, group: where the decision was made; `targets` may be more engines, canary first.
        created_by: "governor", or the operator's name.
        judging: what verification goes by.
        phase_since: when this phase was entered; `deadline`: when it must be judged.
        extended: whether verification has been extended already.
        abort_by: operator who asked to abort; "" for none.
        attempts: refused sends of the present step, on the present target.
        note: one plain sentence on the last transition.
        revert_of: the action that this one takes back.
    """

    model_config = ConfigDict(frozen=True)

    action_id: str
    decision_id: str
    engine_id: str
    group: str
    policy: str
    mode: Mode
    change: Change
    timing: Timing
    judging: Judging = Judging()
    targets: tuple[Target, ...]
    created_by: str
    created_at: float
    phase: Phase
    phase_since: float
    reason: str = ""
    deadline: float | None = None
    extended: bool = False
    intent: Intent | None = None
    attempts: int = 0
    abort_by: str = ""
    approved_by: str = ""
    revert_of: str = ""
    verification: VerifyResult | None = None
    note: str = ""

    @property
    def is_final(self) -> bool:
        """Whether nothing will move any more."""
        return self.phase in FINAL

    @property
    def applied(self) -> tuple[Target, ...]:
        """Engines that run the change now."""
        return tuple(target for target in self.targets if target.state is TargetState.APPLIED)

    @property
    def pending(self) -> tuple[Target, ...]:
        """Engines that the change has not reached."""
        return tuple(target for target in self.targets if target.state is TargetState.PENDING)

    def enter(self, phase: Phase, at: float, note: str, **changes: object) -> "Action":
        """This action in another phase."""
        update = {"phase": phase, "phase_since": at, "note": note, "attempts": 0, "intent": None}
        return self.model_copy(update={**update, **changes})

    def with_target(self, target: Target) -> "Action":
        """This action with one engine's record replaced."""
        targets = tuple(target if t.engine_id == target.engine_id else t for t in self.targets)
        return self.model_copy(update={"targets": targets})
