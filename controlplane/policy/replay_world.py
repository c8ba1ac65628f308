"""A stored history as another policy would have met it: its own changes over recorded snapshots.

Exact: overflow at any C, since the engine counted it at every rung. Assumed, and marked so by the
report: latencies stay as recorded whatever was changed, and a bias rollback ends the drift and the
overflow that came with it.
"""

from dataclasses import dataclass, field

from contract.admin import ConfigState
from contract.runtime_config import RuntimeConfig
from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.policy.decision import Proposal
from controlplane.policy.knob import Knob
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import KnobChange, Snapshot
from controlplane.slo.overflow import judge
from controlplane.slo.status import SloName, SloState, SloStatus

Value = str | int | None


@dataclass
class ReplayWorld:
    """What this replay has changed so far. `see` must be called with snapshots in order.

    Attributes:
        policy: gives the objective, and how long a change stays in flight.
        overrides: knob values that differ from the record.
        rolled_back: when the bias was rolled back, None while it was not.
        changes: own changes, oldest first.
        busy_until: end of the settle and verify time of the last change.
    """

    policy: Policy
    overrides: dict[Knob, Value] = field(default_factory=dict)
    rolled_back: str | None = None
    changes: list[KnobChange] = field(default_factory=list)
    busy_until: float = float("-inf")
    _ratios: list[float | None] = field(default_factory=list)

    def see(self, recorded: Snapshot) -> Snapshot:
        """The recorded moment with this replay's own past in place of the recorded one."""
        config = self._config(recorded)
        capacity = None if config is None else config.document.config.capacity_factor
        ratio = self._overflow(recorded, capacity)
        self._ratios.append(ratio)
        update: dict[str, object] = {
            "config": config,
            "changes": tuple(self.changes),
            "in_flight": "replay" if recorded.at < self.busy_until else None,
            "quarantined": {},
            "awaiting_approval": (),
            "pinned": (),
            "slos": tuple(self._slo(slo, ratio) for slo in recorded.slos),
        }
        if self._is_healed(recorded):
            update["findings"] = tuple(_healed(found) for found in recorded.findings)
            update["bias"] = recorded.bias.model_copy(
                update={"live": self.rolled_back, "configured": self.rolled_back}
            )
        return recorded.model_copy(update=update)

    def apply(self, proposal: Proposal, at: float) -> None:
        """Take a proposal as done, and in flight for the settle and verify time."""
        self.changes.append(
            KnobChange(knob=proposal.knob, at=at, direction=proposal.direction, outcome="replayed")
        )
        self.busy_until = at + self.policy.settle_seconds + self.policy.verify.seconds
        if proposal.knob is Knob.ROUTER_BIAS:
            self.rolled_back = str(proposal.target)
        else:
            self.overrides[proposal.knob] = proposal.target

    def _config(self, recorded: Snapshot) -> ConfigState | None:
        state = recorded.config
        if state is None or not self.overrides:
            return state
        body = state.document.config.model_dump()
        body |= {knob.value: value for knob, value in self.overrides.items()}
        document = state.document.model_copy(update={"config": RuntimeConfig.model_validate(body)})
        return state.model_copy(update={"document": document})

    def _is_healed(self, recorded: Snapshot) -> bool:
        return self.rolled_back is not None and self.rolled_back == recorded.bias.last_known_good

    def _overflow(self, recorded: Snapshot, capacity: str | None) -> float | None:
        load = recorded.load
        if load.assignments < self.policy.slo.overflow.min_assignments:
            return None
        if self._is_healed(recorded) and recorded.bias.live != self.rolled_back:
            return 0.0
        if Knob.CAPACITY_FACTOR not in self.overrides or capacity is None:
            return load.overflow_ratio
        return load.overflow_at_rung.get(capacity, load.overflow_ratio)

    def _slo(self, slo: SloStatus, ratio: float | None) -> SloStatus:
        untouched = not self.overrides and self.rolled_back is None
        if slo.slo is not SloName.OVERFLOW or slo.state is SloState.STALE or untouched:
            return slo
        objective = self.policy.slo.overflow
        state = judge(self._ratios, objective)
        room = None if ratio is None else 1.0 - ratio / objective.threshold
        calm = state is SloState.MET and (room or 0.0) > 0
        return slo.model_copy(
            update={"state": state, "value": ratio, "room_ratio": room, "calm": calm}
        )


def _healed(found: Finding) -> Finding:
    if found.detector is not DetectorName.BIAS_DRIFT:
        return found
    return found.model_copy(update={"state": FindingState.CLEAR, "value": 0.0, "low": 0.0})
