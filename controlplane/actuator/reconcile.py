"""`reconcile(action, world) → next`: one act a pass, decided from what is, not from what happened.

Pure. The caller stores the returned action before it sends the request, and stores the outcome
after (`outcome.record`). Run twice on the same world it asks for the same request with the same
idempotency key, so a process that dies anywhere resumes here.
"""

from controlplane.actuator.action import FINAL, Action, Phase
from controlplane.actuator.applying import apply_next
from controlplane.actuator.judging import settle, verify
from controlplane.actuator.reverting import revert_next, start_revert
from controlplane.actuator.world import Next, World


def reconcile(action: Action, world: World) -> Next:
    """The next state of an action, and the request to send, if any."""
    if action.phase in FINAL:
        return Next(action)
    interrupted = _interrupted(action, world) if action.intent is None else None
    if interrupted is not None:
        return Next(interrupted)
    return _advance(action, world)


def _advance(action: Action, world: World) -> Next:
    match action.phase:
        case Phase.AWAITING_APPROVAL:
            return Next(_await_approval(action, world))
        case Phase.PROPOSED:
            return Next(action.enter(Phase.APPLYING, world.now, "applying"))
        case Phase.APPLYING:
            return apply_next(action, world)
        case Phase.SETTLING:
            return Next(settle(action, world))
        case Phase.VERIFYING:
            return Next(verify(action, world))
        case _:
            return revert_next(action, world)


def _await_approval(action: Action, world: World) -> Action:
    if action.abort_by:
        return action.enter(Phase.REJECTED, world.now, f"aborted by {action.abort_by}")
    if world.now - action.phase_since >= action.timing.approval:
        return action.enter(
            Phase.EXPIRED, world.now,
            f"nobody approved within {action.timing.approval:.0f} s",
        )  # fmt: skip
    return action


def _interrupted(action: Action, world: World) -> Action | None:
    """A freeze or an abort, once no request of unknown outcome is outstanding."""
    if action.phase in {Phase.REVERTING, Phase.AWAITING_APPROVAL}:
        return None
    if world.frozen and world.revert_frozen and action.applied:
        return start_revert(action, world, "frozen, and the operator asked to take changes back")
    if world.frozen:
        return action.enter(Phase.STOPPED, world.now, "frozen: stopped, not reverted")
    if action.abort_by and action.applied:
        return start_revert(action, world, f"aborted by {action.abort_by}")
    if action.abort_by:
        return action.enter(
            Phase.STOPPED, world.now, f"aborted by {action.abort_by} before anything was applied"
        )
    return None
