"""What a sent request came to, and the action after it."""

from contract.admin import MutationResult
from contract.problem import Problem
from controlplane.actuator.action import Action, Intent, IntentStep, Phase
from controlplane.actuator.applying import MAX_ATTEMPTS
from controlplane.actuator.resolving import took_effect

FENCED_PROBLEMS = frozenset({"stale-epoch"})


def answered(action: Action, intent: Intent, result: MutationResult, now: float) -> Action:
    """The engine took the request."""
    if intent.step is IntentStep.UPLOAD:
        return action.model_copy(update={"intent": None})
    target = next(t for t in action.targets if t.engine_id == intent.engine_id)
    return took_effect(action, target, intent, result.observed_generation, now)


def refused(action: Action, problem: Problem) -> Action:
    """The engine said no: nothing was applied by this request.

    A stale ETag may be met by the next attempt, and a revert is worth every attempt; any other no
    to a change stands.
    """
    may_try_again = problem.status == 412 or action.phase is Phase.REVERTING
    attempts = action.attempts + (1 if may_try_again else MAX_ATTEMPTS)
    return action.model_copy(
        update={"intent": None, "attempts": attempts, "note": problem.detail[:512]}
    )
