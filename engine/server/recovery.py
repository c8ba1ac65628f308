"""What an engine does with its state folder at start: the last committed generation, again.

The stored config wins over defaults. A change that a crash cut off is forgotten. A configured bias
whose file is damaged is replaced by the last known good, in a generation that says so.
"""

import asyncio
import logging
from pathlib import Path

from contract.admin import BiasOrigin, Cause, CauseKind
from contract.runtime_config import BiasUpdate, RuntimeConfig
from engine.errors import CorruptSnapshotError, EngineError, StateError
from engine.server.answers import Answer
from engine.server.bias_file import content_hash
from engine.server.bias_store import BiasStore
from engine.server.clock import Clock
from engine.server.config_store import ConfigStore
from engine.server.core import EngineCore
from engine.server.database import Database
from engine.server.facts import read_fact, write_fact
from engine.server.governor import Governor
from engine.server.live_config import LiveConfig
from engine.server.placement_store import PlacementStore

_log = logging.getLogger(__name__)


def open_governor(
    core: EngineCore, state_dir: Path, *, ranks: int, clock: Clock, database: Database | None = None
) -> Governor:
    """Open the stores of a state folder; StateError when they belong to another model."""
    database = database or Database(state_dir / "engine.db")
    try:
        _check_model(database, core, state_dir)
    except StateError:
        database.close()
        raise
    live = LiveConfig(
        core=core, configs=ConfigStore(database), clock=clock,
        biases=BiasStore(database, state_dir / "biases"),
        placements=PlacementStore(database, core.model, ranks),
    )  # fmt: skip
    return Governor(live, database)


def _check_model(database: Database, core: EngineCore, state_dir: Path) -> None:
    model = core.model
    identity = f"{model.expert_set_hash} {model.moe_layers}x{model.experts}"
    stored = read_fact(database, "model", identity)
    if stored != identity:
        raise StateError(
            f"the state in {state_dir} is of another model ({stored}, this one is {identity}); "
            "choose another state folder",
            field="state_dir", value=stored, bound=identity,
        )  # fmt: skip
    with database.transaction() as connection:
        write_fact(connection, "model", identity)


async def start(governor: Governor, initial: RuntimeConfig) -> None:
    """Make the last committed generation live, or `initial` on an empty folder."""
    live = governor.live
    lost = live.configs.lost_intent()
    if lost is not None:
        _log.warning("generation %d was cut off before its commit: forgotten", lost.generation)
        await asyncio.to_thread(live.configs.abandon)
    checkpoint = await _checkpoint_version(live)
    if live.configs.is_empty:
        config = initial.model_copy(update={"router_bias": checkpoint})
        await live.first(config, Cause(kind=CauseKind.BOOT, reason="first start"))
    else:
        await _resume(live, checkpoint)
    governor.started()


async def _checkpoint_version(live: LiveConfig) -> str | None:
    """Store the checkpoint's bias as version 1, last known good until another is marked."""
    bias = live.core.model.checkpoint_bias
    if bias is None:
        return None
    checkpoint = content_hash(bias)
    try:
        live.biases.load(checkpoint)
    except EngineError:
        origin = BiasOrigin.CHECKPOINT
        await asyncio.to_thread(live.biases.put, bias, origin, now=live.clock.now())
    good = live.biases.last_known_good
    try:
        if good is not None:
            live.biases.load(good.bias_hash)
    except CorruptSnapshotError as error:
        _log.warning("%s; the checkpoint's bias takes its place", error)
        good = None
    if good is None:
        answer = Answer(status=200, body="{}")
        await asyncio.to_thread(live.biases.mark_good, checkpoint, ticket=None, answer=answer)
    return checkpoint


async def _resume(live: LiveConfig, checkpoint: str | None) -> None:
    try:
        await live.resume()
    except CorruptSnapshotError as error:
        good = live.biases.last_known_good
        config = live.configs.current.config.model_copy(
            update={
                "router_bias": checkpoint if good is None else good.bias_hash,
                "bias_update": BiasUpdate.OFF,
            }
        )
        _log.warning("%s; the last known good is served instead", error)
        reason = f"configured bias {error.value} is damaged: last known good served"
        await live.first(config, Cause(kind=CauseKind.BOOT, reason=reason))
    except EngineError as error:
        raise StateError(
            f"the stored config cannot be served: {error.detail}; choose another state folder",
            field=error.field, value=error.value, bound=error.bound,
        ) from error  # fmt: skip
