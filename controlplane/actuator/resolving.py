"""A request of unknown outcome: read back first, then take note, resend the same, or give up."""

from contract.admin import ConfigDocument
from controlplane.actuator.action import Action, Intent, IntentStep, Phase, Target, TargetState
from controlplane.actuator.world import Next, Observation, World


def resolve(action: Action, intent: Intent, world: World) -> Next:
    """What became of `intent`, judged by what the engine says now."""
    seen = world.see(intent.engine_id)
    if seen.state is None:
        return Next(_still_unknown(action, intent, world))
    target = next(t for t in action.targets if t.engine_id == intent.engine_id)
    if intent.step is IntentStep.UPLOAD:
        return _resolve_upload(action, intent, seen, world)
    made = _made_by(intent, seen)
    if made is not None:
        return Next(took_effect(action, target, intent, made.generation, world.now))
    if seen.state.etag == intent.mutation.if_match:
        return _resend(action, intent, world)
    # The engine moved on without us: our request can no longer meet its precondition.
    return Next(_without_effect(action))


def took_effect(
    action: Action, target: Target, intent: Intent, generation: int, now: float
) -> Action:
    """The action after its request is known to have made `generation`."""
    if intent.step is IntentStep.REVERT:
        changed = target.model_copy(
            update={"state": TargetState.REVERTED, "revert_generation": generation}
        )
    else:
        changed = target.model_copy(
            update={"state": TargetState.APPLIED, "generation": generation, "applied_at": now}
        )
    return action.with_target(changed).model_copy(update={"intent": None, "attempts": 0})


def _still_unknown(action: Action, intent: Intent, world: World) -> Action:
    silent = world.now - intent.issued_at
    if silent < action.timing.unreachable:
        return action
    return action.enter(
        Phase.ESCALATED, world.now,
        f"{intent.engine_id} has not answered for {silent:.0f} s: nobody knows whether "
        f"{intent.step} took effect",
    )  # fmt: skip


def _made_by(intent: Intent, seen: Observation) -> ConfigDocument | None:
    for document in reversed(seen.documents):
        if document.cause.id == intent.mutation.key:
            return document
    return None


def _resolve_upload(action: Action, intent: Intent, seen: Observation, world: World) -> Next:
    stored = seen.bias_hashes is not None and intent.mutation.blob in seen.bias_hashes
    if stored:
        return Next(action.model_copy(update={"intent": None}))
    if seen.state is not None and seen.state.etag == intent.mutation.if_match:
        return _resend(action, intent, world)
    return Next(_without_effect(action))


def _without_effect(action: Action) -> Action:
    return action.model_copy(update={"intent": None, "attempts": action.attempts + 1})


def _resend(action: Action, intent: Intent, world: World) -> Next:
    """The same request again: same key, body and precondition, so it takes effect at most once."""
    if world.frozen and not world.revert_frozen:
        return Next(_without_effect(action) if intent.step is not IntentStep.REVERT else action)
    if world.now - intent.issued_at >= action.timing.unreachable:
        return Next(_without_effect(action))
    again = intent.model_copy(update={"sends": intent.sends + 1})
    return Next(action.model_copy(update={"intent": again}), send=again)
