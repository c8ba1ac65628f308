"""REVERTING: restore every engine that runs the change; retried until read back as restored."""

from contract.admin import ConfigState
from controlplane.actuator import requests
from controlplane.actuator.action import Action, Phase, Target, TargetState
from controlplane.actuator.resolving import resolve
from controlplane.actuator.world import Next, World, foreign_since, value_of

MAX_REFUSALS = 3


def start_revert(action: Action, world: World, why: str) -> Action:
    """Begin to take the change back; a bias that was rolled away from stays away: a human's turn.

    The drifted bias is the known evil: putting it back to compare would re-inject the fault.
    """
    if action.change.can_revert:
        return action.enter(Phase.REVERTING, world.now, why)
    return action.enter(
        Phase.ESCALATED, world.now, f"{why}; the previous bias is not put back, a human decides"
    )


def revert_next(action: Action, world: World) -> Next:
    """Resolve what is outstanding, else restore the engine that was changed last."""
    if action.intent is not None:
        return resolve(action, action.intent, world)
    if world.frozen and not world.revert_frozen:
        return Next(action)
    target = next(reversed(action.applied), None)
    if target is None:
        return Next(_reverted(action, world))
    state = world.see(target.engine_id).state
    if state is None:
        return Next(_unreachable(action, target, world))
    settled = _settled(action, target, world, state)
    if settled is not None:
        return Next(action.with_target(settled))
    return Next(action) if state.frozen else _restore(action, target, state, world)


def _settled(action: Action, target: Target, world: World, state: ConfigState) -> Target | None:
    """The record of an engine that needs no request: someone else's now, or restored already."""
    if foreign_since(action, target, world.see(target.engine_id)) is not None:
        return target.model_copy(update={"state": TargetState.SKIPPED})
    if not _is_restored(action, target, world):
        return None
    back = {"state": TargetState.REVERTED, "revert_generation": state.document.generation}
    return target.model_copy(update=back)


def _restore(action: Action, target: Target, state: ConfigState, world: World) -> Next:
    if action.attempts >= MAX_REFUSALS:
        return Next(
            action.enter(
                Phase.ESCALATED, world.now,
                f"{target.engine_id} refused {action.attempts} times to be restored: {action.note}",
            )
        )  # fmt: skip
    intent = requests.revert_intent(action, target, state, world.now)
    return Next(action.model_copy(update={"intent": intent}), send=intent)


def _reverted(action: Action, world: World) -> Action:
    if any(target.state is TargetState.SKIPPED and target.generation is not None
           for target in action.targets):  # fmt: skip
        return action.enter(
            Phase.SUPERSEDED, world.now, "someone else wrote a generation meanwhile: adopted"
        )
    return action.enter(Phase.REVERTED, world.now, f"restored: {action.note}")


def _is_restored(action: Action, target: Target, world: World) -> bool:
    state = world.see(target.engine_id).state
    if state is None:
        return False
    if action.change.knob is None:
        before = target.config_before
        return before is not None and before == state.document.config
    return value_of(action.change, state.document.config) == action.change.before


def _unreachable(action: Action, target: Target, world: World) -> Action:
    silent = world.now - action.phase_since
    if silent < action.timing.unreachable:
        return action
    return action.enter(
        Phase.ESCALATED, world.now,
        f"{target.engine_id} has not answered for {silent:.0f} s and still runs the change",
    )  # fmt: skip
