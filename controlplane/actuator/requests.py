"""Builds the requests of an action: whole configs and absolute values, never a delta."""

from contract.admin import BiasRollback, Cause, CauseKind, ConfigPut, ConfigState
from contract.runtime_config import RuntimeConfig
from controlplane.actuator.action import Action, ChangeKind, Intent, IntentStep, Target
from controlplane.actuator.engine_admin import Mutation

GOVERNOR = "governor"


def cause_of(action: Action, key: str) -> Cause:
    """Why the generation exists; its id is the idempotency key, so a crash cannot hide it."""
    kind = CauseKind.DECISION if action.created_by == GOVERNOR else CauseKind.OPERATOR
    return Cause(kind=kind, id=key, actor=action.created_by[:128], reason=action.reason[:512])


def apply_intent(action: Action, target: Target, state: ConfigState, now: float) -> Intent:
    """The request that makes the change on one engine.

    Raises:
        ValueError: the engine's present config does not allow the value (pydantic's message).
    """
    change = action.change
    key = _key(action, IntentStep.APPLY, target)
    cause = cause_of(action, key)
    if change.kind is ChangeKind.BIAS_ROLLBACK:
        body = BiasRollback(bias_hash=str(change.after), layers=change.layers, cause=cause)
        mutation = Mutation(
            method="POST", path="router-bias/rollback", body=body.model_dump(mode="json"),
            if_match=state.etag, key=key,
        )  # fmt: skip
        return Intent(
            engine_id=target.engine_id, step=IntentStep.APPLY, mutation=mutation, issued_at=now
        )
    wanted = change.config or _with(state.document.config, action, change.after)
    return _put(action, target, IntentStep.APPLY, wanted, state, now)


def revert_intent(action: Action, target: Target, state: ConfigState, now: float) -> Intent:
    """The request that restores one engine: the knob alone, or the whole config before."""
    if action.change.knob is None and target.config_before is not None:
        wanted = target.config_before
    else:
        wanted = _with(state.document.config, action, action.change.before)
    return _put(action, target, IntentStep.REVERT, wanted, state, now)


def upload_intent(action: Action, target: Target, state: ConfigState, now: float) -> Intent:
    """The request that gives an engine a bias snapshot that it has lost."""
    bias_hash = str(action.change.after)
    mutation = Mutation(
        method="PUT", path=f"router-bias/{bias_hash}", blob=bias_hash, if_match=state.etag,
        key=_key(action, IntentStep.UPLOAD, target),
    )  # fmt: skip
    return Intent(
        engine_id=target.engine_id, step=IntentStep.UPLOAD, mutation=mutation, issued_at=now
    )


def _put(
    action: Action,
    target: Target,
    step: IntentStep,
    config: RuntimeConfig,
    state: ConfigState,
    now: float,
) -> Intent:
    change, key = action.change, _key(action, step, target)
    leases: dict[str, float] = {}
    if step is IntentStep.APPLY and change.lease_seconds is not None and change.knob is not None:
        leases[change.knob.value] = change.lease_seconds
    body = ConfigPut(config=config, cause=cause_of(action, key), lease_seconds=leases)
    mutation = Mutation(
        method="PUT", path="config", body=body.model_dump(mode="json"), if_match=state.etag, key=key
    )
    return Intent(engine_id=target.engine_id, step=step, mutation=mutation, issued_at=now)


def _with(config: RuntimeConfig, action: Action, value: str | int | None) -> RuntimeConfig:
    knob = action.change.knob
    if knob is None:
        raise ValueError(f"action {action.action_id} names no knob and no config")
    return RuntimeConfig.model_validate({**config.model_dump(mode="json"), knob.value: value})


def _key(action: Action, step: IntentStep, target: Target) -> str:
    index = [t.engine_id for t in action.targets].index(target.engine_id)
    return f"{action.action_id}:{step}:{index}:{action.attempts}"
