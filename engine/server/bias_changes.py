"""What can be done with router biases: roll back, mark good, recalibrate, snapshot.

Every function that changes something runs under the governor's lock.
"""

import asyncio
from collections.abc import Sequence

import numpy as np

from contract.admin import (
    BiasList,
    BiasOrigin,
    BiasRecalibrate,
    BiasRecalibrated,
    BiasRollback,
)
from contract.runtime_config import BiasUpdate
from engine.errors import BadRequestError, RefusedError, StateError
from engine.server.answers import Answer, Ticket
from engine.server.bias_file import content_hash
from engine.server.core import Bias
from engine.server.live_config import Change, LiveConfig


def require_bias(live: LiveConfig) -> Bias:
    """The checkpoint's bias [layers, experts]; RefusedError where the model has none."""
    bias = live.core.model.checkpoint_bias
    if bias is None:
        raise RefusedError(
            f"{live.core.model.name} has no router bias",
            field="router_bias", bound="a model with a selection bias",
        )  # fmt: skip
    return bias


async def list_biases(live: LiveConfig) -> BiasList:
    """Every stored version, and which is configured, live and last known good."""
    _, live_hash = await live.bias_now()
    good = live.biases.last_known_good
    return BiasList(
        configured_hash=live.configs.current.config.router_bias, live_hash=live_hash,
        last_known_good=None if good is None else good.bias_hash, versions=live.biases.versions(),
    )  # fmt: skip


async def snapshot_live(live: LiveConfig, note: str) -> tuple[Bias | None, str | None]:
    """Store the live bias when it is a new one; gives it with its hash."""
    bias, live_hash = await live.bias_now()
    if bias is not None and live_hash is not None and not live.biases.has(live_hash):
        origin = BiasOrigin.REGULATOR
        now = live.clock.now()
        await asyncio.to_thread(live.biases.put, bias, origin, now=now, note=note)
        keep = {live_hash, live.configs.current.config.router_bias or ""}
        await asyncio.to_thread(live.biases.forget_old_snapshots, keep)
    return bias, live_hash


async def roll_back(live: LiveConfig, body: BiasRollback, ticket: Ticket) -> Answer:
    """Make a stored bias live, whole or for some MoE layers; `bias_update` goes off with it.

    The live bias is stored first, as evidence. For some layers, the mixture of the live bias and
    the snapshot is stored as a version of its own.
    """
    require_bias(live)
    target = live.biases.load(body.bias_hash)
    wanted = body.bias_hash
    current, live_hash = await snapshot_live(live, "live before a rollback")
    if body.layers is not None:
        mixed = _mix(current, target, body.layers)
        note = f"layers {', '.join(map(str, sorted(set(body.layers))))} of {body.bias_hash[:12]}"
        info = await asyncio.to_thread(
            live.biases.put, mixed, BiasOrigin.ROLLBACK, now=live.clock.now(), note=note
        )
        wanted = info.bias_hash
    config = live.configs.current.config.model_copy(
        update={"router_bias": wanted, "bias_update": BiasUpdate.OFF}
    )
    change = Change(config=config, cause=body.cause, reload_bias=live_hash != wanted)
    return await live.commit(change, ticket)


def _mix(current: Bias | None, target: Bias, layers: Sequence[int]) -> Bias:
    highest = target.shape[0] - 1
    wrong = [layer for layer in layers if not 0 <= layer <= highest]
    if wrong or not layers:
        raise BadRequestError(
            f"layers holds {wrong or 'nothing'}; MoE layers are 0 … {highest}",
            field="layers", value=wrong, bound=f"0 … {highest}",
        )  # fmt: skip
    mixed = target.copy() if current is None else current.copy()
    rows = np.asarray(sorted(set(layers)))
    mixed[rows] = target[rows]
    return mixed


async def mark_good(live: LiveConfig, bias_hash: str | None, ticket: Ticket) -> Answer:
    """Make a stored bias (default: the live one) the last known good, on the ranks too."""
    require_bias(live)
    _, live_hash = await snapshot_live(live, "live when marked good")
    good = live.biases.info(bias_hash or live_hash or "")
    await live.resend(reload_bias=False, good=good)
    answer = live.answer()
    try:
        await asyncio.to_thread(live.biases.mark_good, good.bias_hash, ticket=ticket, answer=answer)
    except StateError:
        await live.resend(reload_bias=False)
        raise
    return answer


async def upload(live: LiveConfig, bias: Bias, named: str, ticket: Ticket) -> Answer:
    """Store an uploaded bias as a candidate; its values must have the hash of the path."""
    found = content_hash(bias)
    if found != named:
        raise BadRequestError(
            f"the body's values have the hash {found}, the path says {named}",
            field="bias_hash", value=named, bound=found,
        )  # fmt: skip
    answer = live.answer()
    await asyncio.to_thread(
        live.biases.put, bias, BiasOrigin.UPLOAD, now=live.clock.now(), ticket=ticket,
        answer=answer,
    )  # fmt: skip
    return answer


async def recalibrate(live: LiveConfig, body: BiasRecalibrate) -> tuple[Bias, BiasRecalibrated]:
    """Compute a calmer bias from sampled scores; not under the lock, since nothing changes yet."""
    require_bias(live)
    bias, iterations, before, after = await live.core.recalibrate(
        target_cv=body.target_cv, max_iterations=body.max_iterations,
        update_speed=body.update_speed,
    )  # fmt: skip
    result = BiasRecalibrated(
        bias_hash=content_hash(bias), iterations=iterations,
        converged=all(cv <= body.target_cv for cv in after), cv_before=before, cv_after=after,
    )  # fmt: skip
    return bias, result


async def store_recalibrated(
    live: LiveConfig, bias: Bias, result: BiasRecalibrated, ticket: Ticket
) -> Answer:
    """Store the computed bias as a candidate."""
    answer = Answer(status=200, body=result.model_dump_json(), etag=live.etag)
    await asyncio.to_thread(
        live.biases.put, bias, BiasOrigin.RECALIBRATION, now=live.clock.now(),
        note=f"{result.iterations} iterations", ticket=ticket, answer=answer,
    )  # fmt: skip
    return answer
