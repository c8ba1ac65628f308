"""SETTLING and VERIFYING: wait for requests of the new generation, then judge, extend or revert."""

from controlplane.actuator.action import Action, Phase, Target
from controlplane.actuator.reverting import start_revert
from controlplane.actuator.world import World, foreign_since, runs_change
from controlplane.policy.verdict import Verdict

TELEMETRY_GRACE_SECONDS = 60.0
"""How long settling waits for a frame of the new generation beyond its own time."""


def settle(action: Action, world: World) -> Action:
    """Stay until every engine has run the change long enough and its frames say so."""
    disturbed = _disturbed(action, world)
    if disturbed is not None:
        return disturbed
    until = max(_settled_at(action, target, world) for target in action.applied)
    if world.now < until:
        return action
    heard = all(_is_heard(target, world) for target in action.applied)
    if not heard and world.now < until + TELEMETRY_GRACE_SECONDS:
        return action
    return action.enter(
        Phase.VERIFYING, world.now, "verifying", deadline=world.now + action.timing.verify,
        extended=False,
    )  # fmt: skip


def verify(action: Action, world: World) -> Action:
    """Judge at the deadline, or at once when the verdict is final; extend once; then revert."""
    disturbed = _disturbed(action, world)
    if disturbed is not None:
        return disturbed
    word = world.verification
    if word is None or action.deadline is None:
        return action
    if world.now < action.deadline and not word.final:
        return action
    action = action.model_copy(update={"verification": word})
    match word.verdict:
        case Verdict.PASS:
            return _passed(action, world)
        case Verdict.FAIL:
            return start_revert(action, world, f"verification failed: {word.message}")
        case Verdict.INCONCLUSIVE:
            return _could_not_tell(action, world)


def _passed(action: Action, world: World) -> Action:
    if action.pending:
        return action.enter(Phase.APPLYING, world.now, "the canary passed; applying to the rest")
    return action.enter(Phase.SUCCEEDED, world.now, "applied and verified")


def _could_not_tell(action: Action, world: World) -> Action:
    message = action.verification.message if action.verification else ""
    if action.extended:
        return start_revert(action, world, f"still inconclusive after an extension: {message}")
    return action.model_copy(
        update={
            "extended": True,
            "deadline": world.now + action.timing.verify,
            "note": f"inconclusive, extended once: {message}",
        }
    )


def _settled_at(action: Action, target: Target, world: World) -> float:
    p99 = world.hear(target.engine_id).request_p99_seconds or 0.0
    wait = max(action.timing.settle, action.timing.settle_requests * p99)
    return (target.applied_at or action.phase_since) + wait


def _is_heard(target: Target, world: World) -> bool:
    heard = world.hear(target.engine_id)
    if not heard.fresh or heard.generation is None or target.generation is None:
        return False
    return heard.generation >= target.generation


def _disturbed(action: Action, world: World) -> Action | None:
    """Someone else's generation, an expired lease, or a generation of no one's will."""
    for target in action.applied:
        seen = world.see(target.engine_id)
        if seen.state is None or seen.state.document.generation == target.generation:
            continue
        foreign = foreign_since(action, target, seen)
        if foreign is not None:
            return action.enter(
                Phase.SUPERSEDED, world.now,
                f"generation {foreign.generation} of {target.engine_id} was written by "
                f"{foreign.cause.actor or foreign.cause.kind}: adopted",
            )  # fmt: skip
        if not runs_change(action, target, seen.state):
            return start_revert(
                action, world, f"{target.engine_id} took it back itself (lease or restart)"
            )
        moved = target.model_copy(
            update={"generation": seen.state.document.generation, "applied_at": world.now}
        )
        return action.with_target(moved).enter(
            Phase.SETTLING, world.now, f"{target.engine_id} minted a generation; settling again"
        )
    return None
