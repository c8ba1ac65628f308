"""What `reconcile` may look at: the world as it was read in this pass. Values only."""

from dataclasses import dataclass, field

from contract.admin import CauseKind, ConfigDocument, ConfigState
from contract.runtime_config import RuntimeConfig
from controlplane.actuator.action import Action, Change, ChangeKind, Intent, Target
from controlplane.policy.verdict import VerifyResult

FOREIGN_CAUSES = frozenset({CauseKind.OPERATOR, CauseKind.ALERT, CauseKind.DECISION})
"""Causes of a generation that express somebody's will; boot, lease and fault do not."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One engine, read back just now.

    Attributes:
        state: `GET config`; None when the engine did not answer.
        documents: stored generations, oldest first; at least the present one when reachable.
        bias_hashes: stored bias versions; None when they were not read.
        live_bias: hash of the live bias; None when it was not read or there is none.
    """

    state: ConfigState | None
    documents: tuple[ConfigDocument, ...] = ()
    bias_hashes: frozenset[str] | None = None
    live_bias: str | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the frames of one engine say.

    Attributes:
        generation: live generation of the newest frame; None when there is none.
        fresh: whether the newest frame is young enough to judge by.
        request_p99_seconds: p99 of request duration, for settling; None without requests.
    """

    generation: int | None = None
    fresh: bool = False
    request_p99_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside the action.

    Attributes:
        now: unix seconds.
        frozen: a freeze covers the action's group; `revert_frozen`: and asks to take changes back.
        observations, telemetry: by engine id; an absent engine is unreachable.
        verification: verdict on the engines that run the change, in the verifying phase.
        blobs: bias snapshots that the control plane holds and could upload.
    """

    now: float
    frozen: bool = False
    revert_frozen: bool = False
    observations: dict[str, Observation] = field(default_factory=dict)
    telemetry: dict[str, Telemetry] = field(default_factory=dict)
    verification: VerifyResult | None = None
    blobs: frozenset[str] = frozenset()

    def see(self, engine_id: str) -> Observation:
        """The observation of an engine."""
        return self.observations.get(engine_id, Observation(state=None))

    def hear(self, engine_id: str) -> Telemetry:
        """The telemetry of an engine."""
        return self.telemetry.get(engine_id, Telemetry())


@dataclass(frozen=True, slots=True)
class Next:
    """The outcome of a pass: the action to store, and the request to send once it is stored."""

    action: Action
    send: Intent | None = None


def value_of(change: Change, config: RuntimeConfig) -> str | int | None:
    """The value of the changed knob in a config; for a whole config its hash."""
    if change.knob is None:
        return config.content_hash()
    value: str | int | None = getattr(config, change.knob.value)
    return value


def is_ours(action: Action, document: ConfigDocument) -> bool:
    """Whether this action made that generation."""
    return document.cause.id.startswith(action.action_id + ":")


def foreign_since(action: Action, target: Target, seen: Observation) -> ConfigDocument | None:
    """The newest generation after ours that somebody else wanted, if any."""
    if target.generation is None:
        return None
    for document in reversed(seen.documents):
        if document.generation <= target.generation:
            return None
        if document.cause.kind in FOREIGN_CAUSES and not is_ours(action, document):
            return document
    return None


def runs_change(action: Action, target: Target, state: ConfigState) -> bool:
    """Whether the engine's present config still holds what the action wanted."""
    if state.document.generation == target.generation:
        return True
    change = action.change
    if change.kind is ChangeKind.BIAS_ROLLBACK and change.layers is not None:
        return True
    return value_of(change, state.document.config) == change.after
