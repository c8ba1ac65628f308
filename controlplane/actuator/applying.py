"""APPLYING: carry the change to the canary, or to the rest once the canary has passed."""

from controlplane.actuator import requests
from controlplane.actuator.action import (
    Action,
    ChangeKind,
    Intent,
    Phase,
    Target,
    TargetState,
)
from controlplane.actuator.resolving import resolve
from controlplane.actuator.reverting import start_revert
from controlplane.actuator.world import Next, Observation, World, value_of

MAX_ATTEMPTS = 3


def apply_next(action: Action, world: World) -> Next:
    """Resolve what is outstanding, else send to the next engine of this stage."""
    if action.intent is not None:
        return resolve(action, action.intent, world)
    target = next(iter(_stage(action)), None)
    if target is None:
        return Next(_stage_done(action, world))
    seen = world.see(target.engine_id)
    if seen.state is None:
        return Next(_unreachable(action, target, world))
    obstacle = _obstacle(action, target, seen)
    if obstacle is not None:
        return Next(_give_up(action, world, obstacle))
    if _has_it_already(action, seen):
        return Next(action.with_target(target.model_copy(update={"state": TargetState.SKIPPED})))
    try:
        intent = _intent(action, target, seen, world)
    except ValueError as error:
        return Next(_give_up(action, world, f"{target.engine_id} cannot take it: {error}"))
    if intent is None:
        return Next(
            _give_up(action, world, f"{target.engine_id} has no bias {action.change.after}")
        )
    remembered = action.with_target(
        target.model_copy(update={"config_before": seen.state.document.config})
    )
    return Next(remembered.model_copy(update={"intent": intent}), send=intent)


def _stage(action: Action) -> tuple[Target, ...]:
    """The canary alone until a verification has passed, then all that is left."""
    if action.verification is not None:
        return action.pending
    canary = next((t for t in action.targets if t.state is not TargetState.SKIPPED), None)
    return (canary,) if canary is not None and canary.state is TargetState.PENDING else ()


def _stage_done(action: Action, world: World) -> Action:
    if action.applied:
        return action.enter(Phase.SETTLING, world.now, "applied; letting requests settle")
    return action.enter(Phase.SUPERSEDED, world.now, "every engine already runs it")


def _unreachable(action: Action, target: Target, world: World) -> Action:
    silent = world.now - action.phase_since
    if silent < action.timing.unreachable:
        return action
    return _give_up(action, world, f"{target.engine_id} has not answered for {silent:.0f} s")


def _obstacle(action: Action, target: Target, seen: Observation) -> str | None:
    state, change = seen.state, action.change
    if state is None:
        return None
    if state.frozen:
        return f"{target.engine_id} is frozen: {state.freeze_reason}"
    if action.attempts >= MAX_ATTEMPTS:
        return f"{target.engine_id} refused: {action.note}"
    if target.engine_id != action.engine_id or _has_it_already(action, seen):
        return None
    if change.expected_etag is not None and change.expected_etag != state.etag:
        return f"{target.engine_id} moved from {change.expected_etag} to {state.etag} meanwhile"
    if change.kind is ChangeKind.KNOB and value_of(change, state.document.config) != change.before:
        now = value_of(change, state.document.config)
        return f"{change.knob} of {target.engine_id} is {now}, no longer {change.before}"
    return None


def _has_it_already(action: Action, seen: Observation) -> bool:
    change = action.change
    if seen.state is None or change.layers is not None:
        return False
    if value_of(change, seen.state.document.config) != change.after:
        return False
    return change.kind is not ChangeKind.BIAS_ROLLBACK or seen.live_bias == change.after


def _intent(action: Action, target: Target, seen: Observation, world: World) -> Intent | None:
    state = seen.state
    if state is None:
        return None
    if action.change.kind is ChangeKind.BIAS_ROLLBACK and seen.bias_hashes is not None:
        wanted = str(action.change.after)
        if wanted not in seen.bias_hashes:
            if wanted not in world.blobs:
                return None
            return requests.upload_intent(action, target, state, world.now)
    return requests.apply_intent(action, target, state, world.now)


def _give_up(action: Action, world: World, why: str) -> Action:
    if action.applied:
        return start_revert(action, world, why)
    return action.enter(Phase.FAILED, world.now, why)
