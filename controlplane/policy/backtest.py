"""Replay stored snapshots through a policy, beside never acting and always acting. Pure.

Always-act takes every value over its limit as a breach at once, without persistence, cooldown or
flap budget: what a policy must beat in calm as never-act is what it must beat in trouble.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from controlplane.detectors.finding import FindingState
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import KnobRules, Policy
from controlplane.policy.replay_world import ReplayWorld
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloName, SloState

LONGEST_STEP_SECONDS = 60.0
"""A hole in the history counts as at most this long."""
UNLIMITED = 1_000_000


class Incident(BaseModel):
    """Labelled truth: something was wrong from onset to end, and these knobs could mend it."""

    model_config = ConfigDict(frozen=True)

    name: str
    onset: float
    end: float
    knobs: tuple[Knob, ...]


class ReplayedAction(BaseModel):
    """One change that the policy would have made."""

    model_config = ConfigDict(frozen=True)

    at: float
    knob: Knob
    before: str | int | None
    after: str | int | None
    reason: Reason
    relax: bool
    explanation: str


class Run(BaseModel):
    """What one way of acting came to.

    Attributes:
        actions: in order. flaps: changes of direction of a knob.
        reasons: decisions by reason, also of those that did nothing.
        breach_seconds: time in breach by SLO; overflow exact by rung, latencies as recorded.
        false_actions: acts (not relaxations) outside every incident, or with a knob that could not
            mend it; None without labels.
        delays: seconds from onset to the first fitting act, by incident; None when there was none.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    actions: tuple[ReplayedAction, ...]
    flaps: int
    escalations: int
    reasons: dict[Reason, int]
    breach_seconds: dict[SloName, float]
    false_actions: int | None = None
    delays: dict[str, float | None] = {}


class BacktestReport(BaseModel):
    """A policy beside never-act and always-act on the same history."""

    model_config = ConfigDict(frozen=True)

    snapshots: int
    seconds: float
    policy: Run
    never: Run
    always: Run
    assumptions: tuple[str, ...] = (
        "overflow is exact at every C: the engine counted it at every rung",
        "latencies are as recorded, whatever was changed",
        "a bias rollback is taken to end the drift and the overflow that came with it",
        "every proposal counts as applied, in shadow and approve mode too",
    )


def backtest(
    snapshots: Sequence[Snapshot], policy: Policy, *, incidents: Sequence[Incident] = ()
) -> BacktestReport:
    """Replay `snapshots` (one engine, in time order) through `policy` and both baselines."""
    span = snapshots[-1].at - snapshots[0].at if snapshots else 0.0
    return BacktestReport(
        snapshots=len(snapshots), seconds=span,
        policy=replay(snapshots, policy, incidents=incidents),
        never=replay(snapshots, _idle(policy), incidents=incidents),
        always=replay(snapshots, _unrestrained(policy), incidents=incidents, at_once=True),
    )  # fmt: skip


def replay(
    snapshots: Iterable[Snapshot],
    policy: Policy,
    *,
    incidents: Sequence[Incident] = (),
    at_once: bool = False,
) -> Run:
    """One pass over the history; `at_once` decides on values, without persistence."""
    world = ReplayWorld(policy)
    actions: list[ReplayedAction] = []
    reasons: Counter[Reason] = Counter()
    breach: dict[SloName, float] = {}
    escalations, last = 0, None
    for recorded in snapshots:
        seen = world.see(recorded)
        step = 0.0 if last is None else min(LONGEST_STEP_SECONDS, seen.at - last)
        last = seen.at
        for slo in seen.slos:
            if slo.state is SloState.BREACHED:
                breach[slo.slo] = breach.get(slo.slo, 0.0) + step
        decision = decide(_at_once(seen) if at_once else seen, policy)
        reasons[decision.reason] += 1
        escalations += decision.escalate
        if decision.proposal is not None:
            made = decision.proposal
            world.apply(made, seen.at)
            actions.append(
                ReplayedAction(
                    at=seen.at, knob=made.knob, before=made.current, after=made.target,
                    reason=decision.reason, relax=made.relax, explanation=decision.explanation,
                )
            )  # fmt: skip
    return Run(
        name=policy.name, actions=tuple(actions), flaps=_flaps(world), escalations=escalations,
        reasons=dict(reasons), breach_seconds=breach,
        false_actions=_false_actions(actions, incidents) if incidents else None,
        delays={incident.name: _delay(actions, incident) for incident in incidents},
    )  # fmt: skip


def _idle(policy: Policy) -> Policy:
    return policy.model_copy(update={"name": "never-act", "knobs": {}})


def _unrestrained(policy: Policy) -> Policy:
    free = KnobRules(
        mode=Mode.AUTO, act_cooldown_seconds=0, relax_cooldown_seconds=0,
        changes_per_hour=UNLIMITED, changes_per_day=UNLIMITED, reversals_per_hour=UNLIMITED,
    )  # fmt: skip
    quick = policy.verify.model_copy(update={"seconds": 1e-9})
    return policy.model_copy(
        update={
            "name": "always-act", "knobs": dict.fromkeys(Knob, free), "settle_seconds": 0.0,
            "verify": quick, "budget_floor_ratio": None,
        }
    )  # fmt: skip


def _at_once(snapshot: Snapshot) -> Snapshot:
    """Every value over its limit is a breach, every value under it is calm."""
    slos = tuple(
        slo if slo.value is None or slo.state is SloState.STALE else slo.model_copy(
            update={
                "state": SloState.BREACHED if slo.value > slo.threshold else SloState.MET,
                "calm": slo.value <= slo.threshold,
            }
        )
        for slo in snapshot.slos
    )  # fmt: skip
    findings = tuple(
        found.model_copy(update={"state": FindingState.FIRING})
        if found.value is not None and found.threshold is not None
        and found.value > found.threshold else found
        for found in snapshot.findings
    )  # fmt: skip
    return snapshot.model_copy(update={"slos": slos, "findings": findings})


def _flaps(world: ReplayWorld) -> int:
    turns = 0
    for knob in Knob:
        signs = [change.direction for change in world.changes if change.knob is knob]
        turns += sum(1 for a, b in pairwise(signs) if a * b < 0)
    return turns


def _false_actions(actions: Sequence[ReplayedAction], incidents: Sequence[Incident]) -> int:
    def fits(action: ReplayedAction) -> bool:
        return any(i.onset <= action.at <= i.end and action.knob in i.knobs for i in incidents)

    return sum(1 for action in actions if not action.relax and not fits(action))


def _delay(actions: Sequence[ReplayedAction], incident: Incident) -> float | None:
    for action in actions:
        inside = incident.onset <= action.at <= incident.end
        if inside and not action.relax and action.knob in incident.knobs:
            return action.at - incident.onset
    return None
