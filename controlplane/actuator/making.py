"""Makes actions: from a decision, from an operator's wish, and to take an earlier one back. Pure.

A random id is the only thing that is not in the arguments; it is the stem of idempotency keys.
"""

import secrets
from collections.abc import Mapping, Sequence

from contract.admin import ConfigState
from contract.runtime_config import RuntimeConfig
from controlplane.actuator.action import (
    Action,
    Change,
    ChangeKind,
    Judging,
    Phase,
    Target,
    Timing,
)
from controlplane.actuator.requests import GOVERNOR
from controlplane.errors import ConflictError
from controlplane.policy.decision import Decision, Proposal
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.measurement import Measurement
from controlplane.policy.policy import Policy

OPERATOR_POLICY = "operator"
START = {
    Mode.SHADOW: Phase.SHADOW_LOGGED,
    Mode.APPROVE: Phase.AWAITING_APPROVAL,
    Mode.AUTO: Phase.PROPOSED,
}


def new_action_id() -> str:
    """A fresh action id."""
    return f"act-{secrets.token_hex(10)}"


def timing_of(policy: Policy) -> Timing:
    """The durations that a policy sets."""
    return Timing(
        settle=policy.settle_seconds, settle_requests=policy.settle_requests,
        verify=policy.verify.seconds,
        approval=policy.approval_seconds, quarantine=policy.quarantine_seconds,
    )  # fmt: skip


def judging_of(policy: Policy, before: Mapping[str, Measurement]) -> Judging:
    """What verification under a policy goes by."""
    return Judging(
        plan=policy.verify, slo=policy.slo, before=dict(before),
        window_seconds=policy.detectors.window_seconds,
    )  # fmt: skip


def from_decision(
    decision: Decision,
    proposal: Proposal,
    *,
    policy: Policy,
    engine_id: str,
    group: str,
    targets: Sequence[str],
    before: Mapping[str, Measurement],
    at: float,
) -> Action:
    """The action that a decision asks for; its decision id is set when that is stored."""
    is_bias = proposal.knob is Knob.ROUTER_BIAS
    change = Change(
        kind=ChangeKind.BIAS_ROLLBACK if is_bias else ChangeKind.KNOB, knob=proposal.knob,
        before=proposal.current, after=proposal.target, lease_seconds=proposal.lease_seconds,
        relax=proposal.relax, direction=proposal.direction, target_slo=proposal.target_slo,
    )  # fmt: skip
    return Action(
        action_id=new_action_id(), decision_id="", engine_id=engine_id, group=group,
        policy=decision.policy, mode=decision.mode, change=change, timing=timing_of(policy),
        judging=judging_of(policy, before),
        targets=tuple(Target(engine_id=name) for name in targets), created_by=GOVERNOR,
        created_at=at, phase=START[decision.mode], phase_since=at,
        reason=f"{decision.reason}: {decision.explanation}", note=decision.explanation,
    )  # fmt: skip


def by_operator(
    change: Change,
    *,
    policy: Policy,
    engine_id: str,
    group: str,
    author: str,
    reason: str,
    before: Mapping[str, Measurement],
    at: float,
    revert_of: str = "",
) -> Action:
    """An operator's own action on one engine: settled and verified like any other."""
    return Action(
        action_id=new_action_id(), decision_id="", engine_id=engine_id, group=group,
        policy=OPERATOR_POLICY, mode=Mode.AUTO, change=change, timing=timing_of(policy),
        judging=judging_of(policy, before), targets=(Target(engine_id=engine_id),),
        created_by=author, created_at=at, phase=Phase.PROPOSED, phase_since=at,
        reason=reason, note=reason, approved_by=author, revert_of=revert_of,
    )  # fmt: skip


def bias_rollback(
    state: ConfigState, live: str | None, bias_hash: str, layers: tuple[int, ...] | None
) -> Change:
    """To a stored bias version, whole or for some MoE layers."""
    return Change(
        kind=ChangeKind.BIAS_ROLLBACK, knob=Knob.ROUTER_BIAS, before=live, after=bias_hash,
        layers=layers, direction=-1, expected_etag=state.etag,
    )  # fmt: skip


def config_rollback(state: ConfigState, config: RuntimeConfig) -> Change:
    """To a whole stored config."""
    return Change(
        kind=ChangeKind.CONFIG_ROLLBACK, before=state.document.config_hash,
        after=config.content_hash(), config=config, expected_etag=state.etag,
    )  # fmt: skip


def undoing(action: Action) -> Change:
    """The change that takes a kept action back.

    Raises:
        ConflictError: it was a bias rollback; a bias that was rolled away from is not put back
            by a revert, only by choosing that version on purpose.
    """
    change = action.change
    if not change.can_revert:
        raise ConflictError(
            f"action {action.action_id} rolled a bias back: to put the earlier version live again, "
            "choose that version on the rollback page",
            field="action_id", value=action.action_id,
        )  # fmt: skip
    if change.kind is ChangeKind.CONFIG_ROLLBACK:
        earlier = action.targets[0].config_before
        return change.model_copy(
            update={
                "before": change.after, "after": change.before, "config": earlier,
                "expected_etag": None,
            }
        )  # fmt: skip
    return change.model_copy(
        update={
            "before": change.after, "after": change.before, "direction": -change.direction,
            "lease_seconds": None, "expected_etag": None,
        }
    )  # fmt: skip
